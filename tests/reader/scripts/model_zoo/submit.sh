#!/bin/bash
set -euxo pipefail
export WORKSPACE=$(dirname "$(readlink -f "$0")")
export MODEL=${MODEL:-"your_own_model"}
export MEGATRON_PATH=${MEGATRON_PATH:-"megatron"}
source "${WORKSPACE}/runtime/common.conf"
source "${WORKSPACE}/runtime/runtime.conf"
source "${WORKSPACE}/clusters/${CLUSTER}.conf"
TRAINING_PARAMS=${TRAINING_PARAMS:-""}
if [[ -f ${PARAMS_PATH} ]]; then
    envsubst < ${PARAMS_PATH} > ${PARAMS_PATH}.tmp
    PARAMS_PATH=${PARAMS_PATH}.tmp
else
    echo "Error: no ${PARAMS_PATH}"
    exit 1
fi
FROM_CONFIG=$(yq '... comments="" | .MODEL_ARGS | to_entries | .[] |
    select(.value != "false") |
    with(select(.value == "true"); .value = "") |
    [.key + " " + .value] | join("")' ${PARAMS_PATH} | tr '\n' ' ')
TRAINING_PARAMS="${TRAINING_PARAMS} ${FROM_CONFIG}"
if [[ $# -gt 0 ]]; then
    TRAINING_PARAMS="${TRAINING_PARAMS} $@"
fi
ENV_VARS=$(yq '... comments="" | .ENV_VARS | to_entries | .[] | [.key + "=" + .value] | join(" ")' ${PARAMS_PATH})
while IFS='=' read -r KEY VALUE; do
    if [[ -n ${KEY} ]]; then
        export "${KEY}"="${VALUE}"
    fi
done < <(echo "${ENV_VARS}" | tr ' ' '\n')
if [[ ${VPP} -gt 1 ]]; then
    if [[ ! "${TRAINING_PARAMS}" =~ "--pipeline-model-parallel-layout" ]] && \
       [[ ! "${TRAINING_PARAMS}" =~ "--num-layers-per-virtual-pipeline-stage" ]]; then
        TRAINING_PARAMS="${TRAINING_PARAMS} --num-virtual-stages-per-pipeline-rank ${VPP}"
    fi
fi
if [[ $((NUM_LAYERS % PP)) -ne 0 ]]; then
    TRAINING_PARAMS="${TRAINING_PARAMS} --decoder-first-pipeline-num-layers ${PP_FIRST}"
fi
if [[ ${PR} == "bf16" ]]; then
    TRAINING_PARAMS="${TRAINING_PARAMS} --tp-comm-overlap"
fi
export TRAINING_CMD="${PROFILE_CMD:-} python ${SCRIPT_PATH} ${TRAINING_PARAMS}"
LOGS="${OUTPUT:-out}/slurm_logs"
mkdir -p ${LOGS} || {
    echo "Error: no ${LOGS}"
    exit 1
}
N_TASKS_PER_NODE=8
set +e
sbatch ${SBATCH_ARG:-} <<END
#!/bin/bash

#SBATCH --nodes=${NNODES}
#SBATCH --ntasks-per-node=${N_TASKS_PER_NODE}
#SBATCH --time=${RUN_TIME}

srun \
    --mpi=pmix -l \
    --container-workdir=${MEGATRON_PATH} \
    bash -c \\\${TRAINING_CMD} 2>&1 | tee ${LOGS}/\${SLURM_JOB_ID}.log
END
set -e
