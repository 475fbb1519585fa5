#!/bin/bash
# Tensor degree follows from the pipeline degree; common settings and submission stand in other files.
PP=2
GBS=32
TP=$((64/PP))
MBS=1
NLS=32
HS=20480
NAH=128
EXTRA="--recompute-method uniform "
NNODES=8
export JOB=figure13_pp_${PP}_tp_${TP}
. `pwd`/config.sh
. `pwd`/submit.sh
exit 0
