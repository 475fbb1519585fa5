#!/bin/bash
export DOCKER_IMAGE="registry/image:1"
export NNODES=${NNODES:-4}
export MBS=${MBS:-8}
export GBS=${GBS:-256}
export SEQ_LENGTH=${SEQ_LENGTH:-4096}
export TP=${TP:-1}
export PP=${PP:-1}
export VPP=${VPP:-1}
export EP=${EP:-1}
export ETP=${ETP:-1}
export CP=${CP:-1}
export RECOMPUTE_LAYERS=${RECOMPUTE_LAYERS:-0}
export FP8=${FP8:-False}
if [ -z "${Features}" ]; then
    Features=(0 1)
else
    read -ra Features <<< "${Features}"
fi
FEATURE_ARGS=()
for feature in "${Features[@]}"; do
    case "$feature" in
    0) ;;
    1)
        FEATURE_ARGS+=("--cross_entropy_fusion_impl" "te")
        ;;
    3)
        FEATURE_ARGS+=("--manual_gc" "True")
        ;;
    *) ;;
    esac
done
LIST="${Features[*]}"
TAG=$(printf "%s" "${LIST}" | tr ' ' '-')
VPP_ARGS=()
if [ "$VPP" -gt 1 ]; then
    VPP_ARGS+=("--num_virtual_stages_per_pipeline_rank" "$VPP")
fi
FP8_ARGS=()
if [ "$FP8" = "True" ]; then
    FP8_ARGS+=("--fp8" "hybrid")
fi
RECOMPUTE_ARGS=()
RECOMPUTE_ARGS+=("--recompute_granularity" "full")
RECOMPUTE_ARGS+=("--recompute_method" "block")
RECOMPUTE_ARGS+=("--recompute_num_layers" "${RECOMPUTE_LAYERS}")
export EXP="configs/llama3.1_70B-pretrain.yaml"
echo "features ${TAG}" | tee -a log
bash ./run_slurm.sh \
    --micro_batch_size "$MBS" \
    --global_batch_size "$GBS" \
    --seq_length "$SEQ_LENGTH" \
    --tensor_model_parallel_size "$TP" \
    --expert_tensor_parallel_size "$ETP" \
    --pipeline_model_parallel_size "$PP" \
    --expert_model_parallel_size "$EP" \
    --context_parallel_size "$CP" \
    "${VPP_ARGS[@]}" \
    "${FEATURE_ARGS[@]}" \
    "${RECOMPUTE_ARGS[@]}" \
    "${FP8_ARGS[@]}" \
    --train_iters 10 2>&1 | tee -a log
