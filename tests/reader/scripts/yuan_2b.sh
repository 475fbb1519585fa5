#!/bin/bash
GPUS_PER_NODE=8
NNODES=1
CHECKPOINT_PATH=<Specify path>
TOKENIZER=<Specify path to file>
torchrun --nproc_per_node $GPUS_PER_NODE --nnodes $NNODES --node_rank 0 pretrain_yuan.py \
    --tensor-model-parallel-size 1 --pipeline-model-parallel-size 1 \
    --num-layers 24 --hidden-size 2048 --use-lf-gate --lf-conv2d-num-pad 1 \
    --num-attention-heads 32 --seq-length 8192 --max-position-embeddings 8192 \
    --micro-batch-size 2 --global-batch-size $((GPUS_PER_NODE*48)) \
    --swiglu --bf16 --save $CHECKPOINT_PATH \
    --recompute-method uniform --recompute-granularity full --recompute-num-layers 1
