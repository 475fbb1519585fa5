#!/bin/bash
export GPUS_PER_NODE=${GPUS_PER_NODE:-8}
ARGS=("$@")
srun -N "${NNODES}" --exclusive --ntasks-per-node=1 --cpus-per-task="${CPUS_PER_TASK:-96}" bash -c "
    export NNODES=\$SLURM_NNODES
    export NODE_RANK=\$SLURM_PROCID
    bash ./run_local.sh ${ARGS[*]}
"
