#!/bin/bash
#$ -l rt_AF=3
#$ -l h_rt=7:00:00:00
#$ -cwd
source /etc/profile.d/modules.sh
module load cuda/12.1/12.1.1
source .env/bin/activate
export MASTER_ADDR=$(/usr/sbin/ip a show dev bond0 | grep 'inet ' | awk '{ print $2 }' | cut -d "/" -f 1)
export MASTER_PORT=$((10000 + ($JOB_ID % 50000)))
if [[ "$SGE_RESOURCE_TYPE" == "rt_F" ]]; then
  export NUM_GPU_PER_NODE=4
elif [[ "$SGE_RESOURCE_TYPE" == "rt_AF" ]]; then
  export NUM_GPU_PER_NODE=8
else
  echo "Unrecognized: $SGE_RESOURCE_TYPE"
fi
NUM_NODES=$NHOSTS
NUM_GPUS=$((${NUM_NODES} * ${NUM_GPU_PER_NODE}))
mkdir -p ./hostfile
HOSTFILE=./hostfile/hostfile_${JOB_ID}
while read -r line; do
  echo "${line} slots=${NUM_GPU_PER_NODE}"
done <"$SGE_JOB_HOSTLIST" >"$HOSTFILE"
HIDDEN_SIZE=4096
FFN=11008 # intermediate size
TP=2   # fixed
PP=2
DP=$((${NUM_GPUS} / (${TP} * ${PP})))
DATA_PATH=""
DATA_PATH="${DATA_PATH} 10414138710 /data/split_0"
DATA_PATH="${DATA_PATH} 2659052072 /data/wiki"
if [[ -f "out/latest_checkpointed_iteration.txt" ]]; then
  CHECKPOINT_ARGS="--load out"
else
  CHECKPOINT_ARGS="--load in --no-load-rng"
fi
mpirun -np $NUM_GPUS \
  --npernode $NUM_GPU_PER_NODE \
  -hostfile $HOSTFILE \
  -x MASTER_ADDR=$MASTER_ADDR \
  -x CUDA_DEVICE_MAX_CONNECTIONS=1 \
  -bind-to none -map-by slot \
  -x PATH \
  python pretrain_gpt.py \
  --tensor-model-parallel-size ${TP} \
  --pipeline-model-parallel-size ${PP} \
  --sequence-parallel --use-distributed-optimizer \
  --num-layers 32 --hidden-size ${HIDDEN_SIZE} --ffn-hidden-size ${FFN} --num-attention-heads 32 \
  --seq-length 4096 --max-position-embeddings 4096 \
  --micro-batch-size 1 --global-batch-size 1620 \
  --tokenizer-type Llama2Tokenizer --use-checkpoint-args ${CHECKPOINT_ARGS} \
  --data-path ${DATA_PATH} \
  --bf16 --untie-embeddings-and-output-weights --use-rotary-position-embeddings --normalization RMSNorm --swiglu \
  --recompute-activations --recompute-granularity "selective" --use-mpi
