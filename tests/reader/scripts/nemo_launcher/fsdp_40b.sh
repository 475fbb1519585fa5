#!/bin/bash
LAUNCHER_DIR=${LAUNCHER_DIR:-"/opt/launcher"}
DATA_DIR=${DATA_DIR}
python3 ${LAUNCHER_DIR}/main.py \
training=gpt3/40b \
stages=[training] \
data_dir=${DATA_DIR} \
training.trainer.precision="bf16-mixed" \
training.run.name="fsdp_40b" \
training.trainer.num_nodes=32 \
training.model.global_batch_size=256 \
training.model.micro_batch_size=4 \
training.model.tensor_model_parallel_size=4 \
training.model.pipeline_model_parallel_size=1 \
training.model.virtual_pipeline_model_parallel_size=null \
+training.model.fsdp=True \
+training.model.fsdp_sharded_checkpoint=True \
training.model.optim.name="fused_adam" \
~training.model.optim.bucket_cap_mb \
training.run.time_limit=0:20:00 \
