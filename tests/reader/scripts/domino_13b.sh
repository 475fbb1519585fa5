# written for torchrun, started by deepspeed

#!/bin/bash --login
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS_PER_NODE=8
NNODES=1
WORLD_SIZE=$(($GPUS_PER_NODE*$NNODES))
HERE="$( cd "$( dirname "${BASH_SOURCE[0]}" )" &> /dev/null && pwd )"
export PYTHONPATH=$HERE/megatron:$PYTHONPATH
DISTRIBUTED_ARGS="
    --nproc_per_node $GPUS_PER_NODE \
    --nnodes $NNODES
"
GPT_ARGS="
    --num-layers 40 \
    --hidden-size 5120 \
    --num-attention-heads 64 \
    --seq-length 1024 \
    --max-position-embeddings 1024 \
    --micro-batch-size 16 \
    --global-batch-size 16 \
    --fp16 \
    --tensor-model-parallel-size $WORLD_SIZE \
    --seed 3407
"
OUTPUT_ARGS="
    --log-interval 1
    --eval-iters 1
"
cmd="deepspeed --num_gpus $WORLD_SIZE \
    pretrain_gpt.py \
    $GPT_ARGS \
    $OUTPUT_ARGS
    "
eval $cmd
