sbatch -p big -A someone --job-name=${JOB} --nodes=${NNODES} --export=MEGATRON_PARAMS,CODE_DIR task.sh
