#!/bin/bash
# Three benchmarks of one model.
export WORKSPACE=/somewhere
export EMPTY=
CLUSTER=CW MODEL=Qwen3-30B-A3B RUN_TIME=00:30:00 \
    bash ./submit.sh --moe-router-force-load-balancing

CLUSTER=CW MODEL=Qwen3-30B-A3B MBS=4 \
    bash ./submit.sh --moe-router-force-load-balancing --recompute-granularity full --recompute-method uniform --recompute-num-layers 1

CLUSTER=CW MODEL=Qwen3-30B-A3B MBS=4 NNODES=1 \
    bash ./submit.sh --recompute-granularity selective --recompute-modules moe_act layernorm
