#!/usr/bin/env bash
set -exuo pipefail
IFS=$'\n\t'
LEADER=$1
shift
RANK=$1
shift
export LD_LIBRARY_PATH="/var/lib/fabric:${LD_LIBRARY_PATH}"
export NCCL_CROSS_NIC=0
export CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7
pip install '.[train]'
pip freeze
NAME=${TASK_NAME// /_}
RUN_NAME=$NAME-$(date -u +"%Y%m%d")
FOLDER=/data/$RUN_NAME
mkdir -p $FOLDER
torchrun \
  --nnodes "${REPLICA_COUNT}:${REPLICA_COUNT}" \
  --nproc-per-node 8 \
  --rdzv_backend static \
  --rdzv_endpoint "${LEADER}:29400" \
  --node_rank "${RANK}" \
  --rdzv_conf 'read_timeout=420' \
  scripts/train.py \
    configs/olmo7.yaml \
      --run_name=$RUN_NAME \
      --fsdp.sharding_strategy=HYBRID_SHARD \
      --fsdp.hybrid_sharding_num_model_replicas=$REPLICA_COUNT \
      --save_folder=$FOLDER \
      --save_overwrite \
      '--load_path=${path.last_checkpoint:${remote_save_folder}}' \
      --device_train_microbatch_size=2 \
      --activation_checkpointing=one_in_four \
      --fused_loss=false
