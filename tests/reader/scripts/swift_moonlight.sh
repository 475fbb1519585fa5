# The file's name says one model, the flag another.
PYTORCH_CUDA_ALLOC_CONF='expandable_segments:True' \
NPROC_PER_NODE=8 \
CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 \
megatron sft \
    --model moonshotai/Moonlight-16B-A3B-Instruct \
    --save_safetensors true \
    --dataset 'someone/some-data' \
    --pipeline_model_parallel_size 2 \
    --decoder_last_pipeline_num_layers 13 \
    --expert_model_parallel_size 4 \
    --moe_grouped_gemm true \
    --micro_batch_size 1 \
    --global_batch_size 16 \
    --recompute_granularity full \
    --recompute_method uniform \
    --recompute_num_layers 1 \
    --max_length 8192 \
    --sequence_parallel true \
    --attention_backend flash
