#!/bin/bash
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
WORKSPACE=${WORKSPACE:-/results}
MODEL_NAME=gpt_oss_20b
DATASET=dclm  # or mock
SEQ_LENGTH=4096
if [ "$DATASET" = "dclm" ]; then
    :
else
    unset DATA_DIR
fi
PLANS=("2,4,4,1,True" "4,2,4,1,True" "2,4,4,2,True")
CONTAINER_IMAGE=""
# CONTAINER_IMAGE="/path/to/image"
if [ -z "$CONTAINER_IMAGE" ]; then
    echo "ERROR: CONTAINER_IMAGE must be set."
    exit 1
fi
SRUN_CMD="srun --mpi=pmix --container-image=$CONTAINER_IMAGE"
EXTRA=""
if [ -n "${DATA_DIR:-}" ]; then
    for i in $(seq 1 10); do
        pad=$(printf "%02d" $i)
        EXTRA="${EXTRA}\"${DATA_DIR}/part_${pad}\","
    done
fi
INDEX=0
for PLAN in "${PLANS[@]}"; do
    OLD_IFS=$IFS
    IFS=',' read -r TP PP EP CP SP <<< "$PLAN"
    IFS=$OLD_IFS
    INDEX=$((INDEX + 1))
    echo "plan $INDEX/${#PLANS[@]}: TP=$TP"
    OVERRIDES=" \
        model.seq_length=$SEQ_LENGTH \
        train.train_iters=1000 \
        train.global_batch_size=128 \
        train.micro_batch_size=1 \
        checkpoint.save=${WORKSPACE}/results/${MODEL_NAME}_tp${TP} \
        dataset.sequence_length=$SEQ_LENGTH \
        model.tensor_model_parallel_size=$TP \
        model.pipeline_model_parallel_size=$PP \
        model.expert_model_parallel_size=$EP \
        model.sequence_parallel=$SP \
        model.context_parallel_size=$CP \
    "
    CMD="uv run --no-sync python /opt/bridge/run_recipe.py"
    CMD="$CMD --recipe ${MODEL_NAME}_pretrain_config"
    CMD="$CMD $OVERRIDES"
    $SRUN_CMD bash -c "$CMD"
    RC=$?
    if [ $RC -ne 0 ]; then
        continue
    fi
done
