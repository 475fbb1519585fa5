#!/bin/bash
DS_CONFIG=ds_config.json
TP=1
PP=1
NLAYERS=96
HIDDEN=12288
GLOBAL_BATCH=32
MICRO_BATCH=4
ZERO_STAGE=3
cat <<EOT > $DS_CONFIG
{
  "train_batch_size" : $GLOBAL_BATCH,
  "train_micro_batch_size_per_gpu": $MICRO_BATCH,
  "zero_optimization": { "stage": $ZERO_STAGE },
  "fp16": { "enabled": true, "initial_scale_power" : 12 }
}
EOT
ds_args=""
ds_args=" --deepspeed ${ds_args}"
ds_args=" --deepspeed_config=$DS_CONFIG ${ds_args}"
ds_args=" --zero-stage=$ZERO_STAGE ${ds_args}"
ds_args=" --deepspeed-activation-checkpointing ${ds_args}"
deepspeed --force_multi --num_nodes=1 --num_gpus=8 --hostfile=/job/hostfile pretrain_gpt.py \
    --tensor-model-parallel-size $TP \
    --pipeline-model-parallel-size $PP \
    --num-layers $NLAYERS \
    --hidden-size $HIDDEN \
    --num-attention-heads 96 \
    --seq-length 1024 \
    --max-position-embeddings 1024 \
    --micro-batch-size $MICRO_BATCH \
    --global-batch-size $GLOBAL_BATCH \
    --checkpoint-activations \
    --fp16 \
    $ds_args
