#! /bin/bash
# GPT-2 345M, two-way model parallel, in the spelling of 2019.
GPUS_PER_NODE=8
NNODES=1
NODE_RANK=0
WORLD_SIZE=$(($GPUS_PER_NODE*$NNODES))
LAUNCH="--nproc_per_node $GPUS_PER_NODE --nnodes $NNODES --node_rank $NODE_RANK --master_addr localhost --master_port 6000"

python -m torch.distributed.launch $LAUNCH \
       pretrain_gpt2.py \
       --model-parallel-size 2 \
       --num-layers 24 \
       --hidden-size 1024 \
       --num-attention-heads 16 \
       --batch-size 8 \
       --seq-length 1024 \
       --max-position-embeddings 1024 \
       --train-iters 500000 \
       --save checkpoints/gpt2_345m_mp2 \
       --lr 0.00015 \
       --checkpoint-activations \
       --fp16
