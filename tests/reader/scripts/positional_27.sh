#!/bin/bash
set -e
ENV=$1
HERE="$( cd "$( dirname "$0" )" && pwd )"
ROOT=$( dirname $( dirname ${HERE}))
export PYTHONPATH=${ROOT}:$PYTHONPATH
export CUDA_DEVICE_MAX_CONNECTIONS=1
if [ $ENV = dsw ]; then
    NNODES=1
    NODE_RANK=0
    MASTER_PORT=$(shuf -n 1 -i 10000-65535)
    GPUS_PER_NODE=`python -c "import torch; print(torch.cuda.device_count())"`
elif [ $ENV = dlc ]; then
    NNODES=${WORLD_SIZE}
    NODE_RANK=${RANK}
    GPUS_PER_NODE=${KUBERNETES_CONTAINER_RESOURCE_GPU}
fi
LAUNCH="--nproc_per_node $GPUS_PER_NODE --nnodes $NNODES --node_rank $NODE_RANK --master_addr $MASTER_ADDR --master_port $MASTER_PORT"
MODEL_SIZE=$2
BATCH_SIZE=$3
GLOBAL_BATCH_SIZE=$4
LR=$5
MIN_LR=$6
SEQ_LEN=$7
PAD_LEN=$8
PR=$9
TP=${10}
PP=${11}
CP=${12}
ETP=${13}
EP=${14}
SP=${15}
DO=${16}
FL=${17}
SFT=${18}
AC=${19}
OPTIMIZER_OFFLOAD=${20}
SAVE_INTERVAL=${21}
TRAIN_TOKENS=${25}
if [ $FL = true ]; then
    attn_option=" --attention-backend flash
    "
elif [ $FL = false ]; then
    attn_option=" --attention-backend fused"
fi
if [ $MODEL_SIZE = 8B ]; then
    LAYERS=36; HIDDEN=4096; HEADS=32; FFN=12288; KV=8
    moe_options=""
elif [ $MODEL_SIZE = A3B ]; then
    LAYERS=48
    HIDDEN=2048
    HEADS=32
    FFN=6144
    KV=4
    EXTRA_VOCAB=293
    moe_options=" \
        --moe-token-dispatcher-type alltoall \
        --moe-router-topk 8 \
        --num-experts 128 \
        --expert-tensor-parallel-size ${ETP} \
        --expert-model-parallel-size ${EP} \
        --moe-ffn-hidden-size 768 \
        --moe-layer-freq '([1]*48)' \
        "
fi
if [ -z ${MP_AC_LAYERS} ];then
    MP_AC_LAYERS=1
fi
if [ -z ${MP_VP} ]; then
    vp_option=""
else
    vp_option=" --num-layers-per-virtual-pipeline-stage ${MP_VP}"
fi
OVERLAP=$(( ($TP > 1) ? 1 : 0 ))
if [ $OVERLAP -eq 1 ]; then
    comm_option="--tp-comm-overlap --overlap-grad-reduce --overlap-param-gather"
fi
if [ $AC = full ]; then
    _check=$(( ($LAYERS / $PP) % ${MP_AC_LAYERS} ))
    if [ $_check != 0 ]; then
        echo "layers do not divide"
        exit -1
    fi
    ac_options=" --recompute-method uniform --recompute-num-layers ${MP_AC_LAYERS} --recompute-granularity full"
elif [ $AC = sel ]; then
    ac_options=" --recompute-activations"
fi
if [ $PR = bf16 ]; then
    pr_options=" \
        --bf16"
fi
if [ $OPTIMIZER_OFFLOAD != false ] && [ $DO = false ]; then
    DO=true
fi
if [ $DO = true ]; then
    do_option=" --use-distributed-optimizer"
fi
if [ $SP = true ] && [ $TP -gt 1 ]; then
    sp_option=" --sequence-parallel"
fi
if [ -z ${MP_PP0_LAYERS} ];then
    uneven=""
elif [ ${PP} -gt 1 ]; then
    uneven=" --decoder-first-pipeline-num-layers ${MP_PP0_LAYERS}"
else
    exit -1
fi
TRAIN_ITERS=$(( ${TRAIN_TOKENS} / ${GLOBAL_BATCH_SIZE} / ${SEQ_LEN} ))
current_time=$(date "+%Y.%m.%d")
find -L ${CKPT} -maxdepth 1 -name "*.json" -print0 | xargs -0 cp -t out
options="  \
        --micro-batch-size ${BATCH_SIZE} \
        --global-batch-size ${GLOBAL_BATCH_SIZE} \
        --num-layers ${LAYERS} \
        --hidden-size ${HIDDEN} \
        --num-attention-heads ${HEADS} \
        --ffn-hidden-size ${FFN} \
        --seq-length ${SEQ_LEN} \
        --max-position-embeddings 40960 \
        --tensor-model-parallel-size ${TP} \
        --pipeline-model-parallel-size ${PP} \
        --context-parallel-size ${CP} \
        --train-iters ${TRAIN_ITERS} \
        --tensorboard-dir logs/${current_time} \
        --extra-vocab-size ${EXTRA_VOCAB} \
        --patch-tokenizer-type Qwen3Tokenizer \
        --swiglu --normalization RMSNorm --disable-bias-linear --qk-layernorm --kv-channels 128 \
        --group-query-attention --num-query-groups ${KV}
        "
run_cmd="torchrun $LAUNCH pretrain_qwen.py
 ${options} ${pr_options} ${ac_options} \
 ${do_option} ${sp_option} ${moe_options} ${vp_option} ${uneven} ${attn_option}"
echo ${run_cmd}
eval ${run_cmd}
