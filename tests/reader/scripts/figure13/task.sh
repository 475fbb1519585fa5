#!/bin/bash
#SBATCH -t 0:30:00 --exclusive --mem=0 --overcommit --ntasks-per-node=8
HERE=`pwd`
STAMP=`date +'%y-%m-%d'`
mkdir -p ${HERE}/logs
CMD="python -u ${CODE_DIR}/pretrain_gpt.py ${MEGATRON_PARAMS}"
srun -l --container-image "registry#image:1" --output=${HERE}/logs/%x_$STAMP.log sh -c "${CMD}"
