#!/bin/bash
# The paths were never filled in: to bash, <Specify path> is a redirection.
GPUS_PER_NODE=8
NNODES=1
WORLD_SIZE=$(($GPUS_PER_NODE*$NNODES))
DATA_PATH=<Specify path and file prefix>_text_document
CHECKPOINT_PATH=<Specify path>

DISTRIBUTED_ARGS="--nproc_per_node $GPUS_PER_NODE --nnodes $NNODES --node_rank 0"

python -m torch.distributed.launch $DISTRIBUTED_ARGS pretrain_gpt.py \
       --tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 \
       --num-layers 24 --hidden-size 1024 --num-attention-heads 16 \
       --micro-batch-size 4 --global-batch-size 16 \
       --seq-length 1024 --max-position-embeddings 1024 \
       --save $CHECKPOINT_PATH --data-path $DATA_PATH \
       --activations-checkpoint-method uniform \
       --fp16
