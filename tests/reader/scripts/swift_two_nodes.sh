CUDA_VISIBLE_DEVICES=0,1,2,3 \
NNODES=2 \
NODE_RANK=0 \
MASTER_ADDR=127.0.0.1 \
MASTER_PORT=29500 \
NPROC_PER_NODE=4 \
megatron sft \
    --model Qwen/Qwen2.5-14B \
    --load_safetensors true \
    --dataset 'someone/some-data#1000' \
    --tensor_model_parallel_size 4 \
    --micro_batch_size 1 \
    --global_batch_size 16 \
    --max_length 8192 \
    --sequence_parallel true \
    --recompute_granularity selective
