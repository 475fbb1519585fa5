#!/usr/bin/bash
set -ex
NGPU=${NGPU:-"8"}
export LOG_RANK=${LOG_RANK:-0}
MODULE=${MODULE:-"llama3"}
CONFIG=${CONFIG:-"llama3_debugmodel"}
COMM_MODE=${COMM_MODE:-""}
LIGHTHOUSE=${LIGHTHOUSE:-"http://localhost:29510"}
if [[ -n "$COMM_MODE" && "$COMM_MODE" != "fake_backend" ]]; then
    echo "bad COMM_MODE: ${COMM_MODE}" >&2
    exit 1
fi
if [ "$COMM_MODE" = "fake_backend" ]; then
    NGPU="${NGPU}" LOCAL_RANK=0 python3 -m torchtitan.train --module ${MODULE} --config ${CONFIG} --comm.mode=fake_backend "$@"
else
    PYTORCH_ALLOC_CONF="expandable_segments:True" \
    LIGHTHOUSE=${LIGHTHOUSE} \
    torchrun --nproc_per_node=${NGPU} --rdzv_backend c10d --rdzv_endpoint="localhost:0" \
    --local-ranks-filter ${LOG_RANK} --role rank --tee 3 \
    -m torchtitan.train --module ${MODULE} --config ${CONFIG} "$@"
fi
