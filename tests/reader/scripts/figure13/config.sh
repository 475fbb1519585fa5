MEGATRON_PARAMS="--num-layers ${NLS} \
    --hidden-size ${HS} \
    --num-attention-heads ${NAH} \
    --seq-length 2048 \
    --max-position-embeddings 2048 \
    --tensor-model-parallel-size ${TP} \
    --pipeline-model-parallel-size ${PP} \
    --micro-batch-size ${MBS} \
    --global-batch-size ${GBS} \
    --fp16 ${EXTRA}"
export MEGATRON_PARAMS
export CODE_DIR=/opt/megatron
