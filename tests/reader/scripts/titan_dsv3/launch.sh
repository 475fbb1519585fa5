#!/bin/bash
#SBATCH --job-name="dsv3"
set -eu -o pipefail
if [ "${BASH_VERSION%%.*}" -lt 4 ] || { [ "${BASH_VERSION%%.*}" -eq 4 ] && [ "${BASH_VERSION#*.}" -lt 2 ]; }; then
    printf "Unsupported %s version: %s\n" "${BASH}" "${BASH_VERSION}" >&2
    exit 1
fi
export GPU_TYPE=${GPU_TYPE:?GPU_TYPE is a required variable.}
export GPU_TYPE=${GPU_TYPE,,}
export JOB_TOTAL_GPUS=${JOB_TOTAL_GPUS:?JOB_TOTAL_GPUS is a required variable.}
export DTYPE=${DTYPE:-BF16}
export DTYPE=${DTYPE,,}
if [[ $DTYPE != "bf16" ]]; then
    echo "only bf16"
    exit 1
fi
export INSTALL=${INSTALL:?Please set INSTALL}
export REPO=$PWD
export AC_MODE=${AC_MODE:-none}
if [[ $GPU_TYPE == "h100" ]]; then
    export GPUS_PER_NODE=${GPUS_PER_NODE:-8}
    export SHARD=${SHARD:--1}
    export EP=${EP:-64}
    export PP=${PP:-8}
    export AC_MODE=selective
elif [[ $GPU_TYPE == "gb200" ]]; then
    export GPUS_PER_NODE=${GPUS_PER_NODE:-4}
    export SHARD=${SHARD:--1}
    export EP=${EP:-64}
    export PP=${PP:-1}
    export LOCAL_BATCH_SIZE=${LOCAL_BATCH_SIZE:-8}
else
    echo "Error: $GPU_TYPE"
    exit 1
fi
export SEQ_LEN=${SEQ_LEN:-4096}
export LOCAL_BATCH_SIZE=${LOCAL_BATCH_SIZE:-16}
ADDITIONAL=${ADDITIONAL:-""}
SRUN_ARGS=""
if [ -n "$ADDITIONAL" ]; then
    IFS=';' read -ra PARAMS <<< "$ADDITIONAL"
    for param in "${PARAMS[@]}"; do
        param=$(echo "$param" | xargs)
        if [[ $param == *"="* ]]; then
            SRUN_ARGS+=" --${param}"
        fi
    done
fi
TRAIN_CMD="\
cd $INSTALL/torchtitan; \
ulimit -c 0; \
export PYTHONPATH=$INSTALL:\$PYTHONPATH; \
LOCAL_RANK=\$SLURM_LOCALID; \
python -m torchtitan.train \
--job.config_file=$REPO/dsv3.toml \
--training.steps=60 \
--training.seq_len=$SEQ_LEN \
--parallelism.data_parallel_shard_degree=$SHARD \
--parallelism.expert_parallel_degree=$EP \
--parallelism.pipeline_parallel_degree=$PP \
--activation_checkpoint.mode=$AC_MODE \
--training.local_batch_size=$LOCAL_BATCH_SIZE"
srun --container-image="image" --no-container-mount-home \
    $SRUN_ARGS \
    bash -c "$TRAIN_CMD"
