#!/bin/bash
# Only exports; the launcher is elsewhere.
export SYSTEM=MI355X_1x8x1
export GPUS_PER_NODE=8
export NNODES=1
export ROOT=/apps/someone/primus
export PYTHONPATH="${ROOT}:${PYTHONPATH}"
export EXP=${ROOT}/mlperf/configs/llama3.1_8B-fp4.yaml
export PRIMUS_MICRO_BATCH_SIZE=2
export PRIMUS_GLOBAL_BATCH_SIZE=32
export EVAL_SAMPLES=12288
export PRIMUS_EVAL_INTERVAL=$((EVAL_SAMPLES / PRIMUS_GLOBAL_BATCH_SIZE))
export NVTE_FUSED_ATTN=1
export NVTE_FUSED_ATTN=1
export MLLOG_TENSOR_PARALLELISM=8
NAME=$(basename "${BASH_SOURCE[0]}")
export NAME
export VERBOSE=${VERBOSE:-0}
