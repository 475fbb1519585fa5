#!/bin/bash
#SBATCH <SLURM OPTIONS> --nodes=128 --ntasks-per-node=8
export CUDA_DEVICE_MAX_CONNECTIONS=1
DIR=`pwd`
STAMP=`date +'date_%y-%m-%d'`
mkdir -p $DIR/logs
DATASET="/data/sample/c4_text_document"
if [ ! -e "$DATASET"".idx" ]; then
  wget https://example.org/sample.tar.gz
fi
# Here WORLD_SIZE is the number of nodes.
if [ -z "$WORLD_SIZE" ]; then
  export WORLD_SIZE=1
  export RANK=0
  export MASTER_ADDR=localhost
  export MASTER_PORT=10086
fi
if [ -z "$GPUS_PER_NODE" ]; then
  GPUS_PER_NODE=$(nvidia-smi --list-gpus | wc -l)
fi
WORLD_SIZE_IN_GPUS=$(( $WORLD_SIZE * $GPUS_PER_NODE ))
if [ -z "$PIPELINE_SIZE" ]; then
  PIPELINE_SIZE=2
  LAYERS=8
  MICRO_BATCH_SIZE=1
  GLOBAL_BATCH_SIZE=8
  HIDDEN_SIZE=8192
  ATTENTION_HEADS=64
fi
profile_ranks="0"
for ((i = 1; i < $WORLD_SIZE_IN_GPUS; i++)); do
    profile_ranks="$profile_ranks $i"
done
if [ -z "$TP_SIZE" ]; then
  TP_SIZE=2
fi
options=" \
  --tensor-model-parallel-size $TP_SIZE \
  --pipeline-model-parallel-size $PIPELINE_SIZE \
  --num-layers $LAYERS \
  --hidden-size $HIDDEN_SIZE \
  --num-attention-heads $ATTENTION_HEADS \
  --group-query-attention \
  --num-query-groups $GQA \
  --seq-length 4096 \
  --max-position-embeddings 8192 \
  --micro-batch-size $MICRO_BATCH_SIZE \
  --global-batch-size $GLOBAL_BATCH_SIZE \
  --untie-embeddings-and-output-weights \
  --sequence-parallel \
  --use-distributed-optimizer \
  --profile-ranks $profile_ranks "
if [ -z "$FP32" ]; then
  options="$options --fp16"
fi
if [ ! -z "$INTERLEAVED_1F1B" ]; then
  options="$options --num-layers-per-virtual-pipeline-stage 1"
fi
run_cmd="torchrun --nnodes $WORLD_SIZE --node_rank $RANK --master_addr $MASTER_ADDR \
  --nproc_per_node=$GPUS_PER_NODE ${DIR}/pretrain_gpt.py $@ ${options}"
echo $run_cmd
eval $run_cmd
set +x
