#!/bin/bash
# Arguments are NAME=VALUE words.
for ARGUMENT in "$@"
do
   KEY=$(echo $ARGUMENT | cut -f1 -d=)
   KEY_LENGTH=${#KEY}
   VALUE="${ARGUMENT:$KEY_LENGTH+1}"
   export "$KEY"="$VALUE"
done
export NCCL_CROSS_NIC=0
MODEL_SIZE="${MODEL_SIZE:-70}"
TP="${TP:-8}"
PP="${PP:-1}"
MBS="${MBS:-2}"
BS="${BS:-8}"
SEQ_LENGTH="${SEQ_LENGTH:-4096}"
RECOMPUTE="${RECOMPUTE:-0}"
SEQ_PARALLEL="${SEQ_PARALLEL:-1}"
OPTIMIZER="${OPTIMIZER:-sgd}"
GPUS_PER_NODE=`python3 -c "import torch; print(torch.cuda.device_count())"`
NNODES="${NNODES:-1}"
WORLD_SIZE=$(($GPUS_PER_NODE*$NNODES))
if [[ $MODEL_SIZE -eq 7 ]]; then
        HIDDEN_SIZE=4096; FFN=11008; NUM_LAYERS=32; NUM_HEADS=32; NUM_KV=32
elif [[ $MODEL_SIZE -eq 70 ]]; then
        HIDDEN_SIZE=8192; FFN=28672; NUM_LAYERS=80; NUM_HEADS=64; NUM_KV=8
else
        echo "Model size not supported."
        exit 1
fi
GROUP_SIZE=$(( ${NUM_HEADS} / ${NUM_KV} ))
NUM_GROUPS=$(( ${NUM_HEADS} / ${GROUP_SIZE} ))
GPT_ARGS="
    --tensor-model-parallel-size ${TP} \
    --pipeline-model-parallel-size ${PP} \
    --num-layers $NUM_LAYERS --hidden-size $HIDDEN_SIZE --ffn-hidden-size $FFN --num-attention-heads $NUM_HEADS \
    --seq-length $SEQ_LENGTH --max-position-embeddings $SEQ_LENGTH \
    --swiglu --disable-bias-linear --normalization RMSNorm --use-distributed-optimizer --bf16 --optimizer $OPTIMIZER
"
TRAIN_ARGS="--micro-batch-size $MBS --global-batch-size $BS"
EXTRA="--group-query-attention --num-query-groups $NUM_GROUPS"
if [ "$RECOMPUTE" -eq 1 ]; then EXTRA="$EXTRA --recompute-granularity full --recompute-method block --recompute-num-layers 80"; fi
if [ "$SEQ_PARALLEL" -eq 1 ]; then EXTRA="$EXTRA --sequence-parallel"; fi
CMD="torchrun --nproc_per_node $GPUS_PER_NODE --nnodes $NNODES pretrain_gpt.py $GPT_ARGS $TRAIN_ARGS $EXTRA"
eval $CMD 2>&1 | tee train.log
python3 - <<PY
print("mean of the log")
PY
