#!/bin/bash
export CUDA_DEVICE_MAX_CONNECTIONS=1
DIR=`pwd`
GPUS_PER_NODE=$(python -c 'import torch; print(torch.cuda.device_count())')
NNODES=1
MODEL="Qwen/Qwen-7B" # a hub name
DATA="path_to_data"
DS_CONFIG_PATH=${DS_CONFIG_PATH:-"finetune/zero3.json"}
function usage() {
    echo '
Usage: bash finetune.sh [-m MODEL] [-d DATA]
'
}
while [[ "$1" != "" ]]; do
    case $1 in
        -m | --model )
            shift
            MODEL=$1
            ;;
        -d | --data )
            shift
            DATA=$1
            ;;
        -h | --help )
            usage
            exit 0
            ;;
        * )
            echo "Unknown argument ${1}"
            exit 1
            ;;
    esac
    shift
done
LAUNCH="
    --nproc_per_node $GPUS_PER_NODE \
    --nnodes $NNODES
"
torchrun $LAUNCH finetune.py \
    --model_name_or_path $MODEL \
    --data_path $DATA \
    --bf16 True \
    --per_device_train_batch_size 1 \
    --gradient_accumulation_steps 16 \
    --evaluation_strategy "no" \
    --model_max_length 512 \
    --gradient_checkpointing True \
    --deepspeed ${DS_CONFIG_PATH}
