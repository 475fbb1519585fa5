#!/bin/bash
TP=2
PP=2
ZERO_STAGE=0
NPROC=8
NNODES=1
DS_CONFIG=./deepspeed.json
activation_checkpoint="false"
cat <<EOT > $DS_CONFIG
{ "train_batch_size" : 32, "train_micro_batch_size_per_gpu": 4,
  "zero_optimization": { "stage": $ZERO_STAGE }, "bf16": { "enabled": true } }
EOT
ds_args=""
ds_args=" --deepspeed ${ds_args}"
ds_args=" --no-pipeline-parallel ${ds_args}"
ds_args=" --deepspeed_config=$DS_CONFIG ${ds_args}"
ds_args=" --zero-stage=$ZERO_STAGE ${ds_args}"
if [ "${activation_checkpoint}" = "true" ]; then
  ds_args="--deepspeed-activation-checkpointing ${ds_args}"
  ds_args="--checkpoint-activations ${ds_args}"
fi
torchrun --nproc_per_node $NPROC --nnodes $NNODES --node_rank 0 --master_addr localhost --master_port 6000 \
       pretrain_gpt.py \
       --tensor-model-parallel-size $TP --pipeline-model-parallel-size $PP \
       --num-layers 24 --hidden-size 2048 --ffn-hidden-size 5504 --num-attention-heads 16 --num-key-value-heads 4 \
       --micro-batch-size 4 --global-batch-size 32 --seq-length 2048 --max-position-embeddings 2048 \
       --bf16 --swiglu --normalization rmsnorm --disable-bias-linear --use-rotary-position-embeddings \
       --untie-embeddings-and-output-weights $ds_args
