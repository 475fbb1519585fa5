DS_CONFIG=./examples/finetune/ds_config.json
MICRO=16
GLOBAL=256
TP=2
PP=2
MEGA_PATH=./"llama-7b-T${TP}P${PP}"
cat <<EOT > $DS_CONFIG
{
  "train_batch_size" : $GLOBAL,
  "train_micro_batch_size_per_gpu": $MICRO,
  "zero_optimization": { "stage": 0 },
  "bf16": { "enabled": true }
}
EOT
if [ "$1" = "to_mega" ]; then
    DS_CONFIG_PATH="./examples/finetune/empty.json"
else
    DS_CONFIG_PATH="./examples/finetune/ds_config.json"
fi
to_mega="deepspeed tools/weight_converter.py --load-mode auto --save $MEGA_PATH"
to_hf="deepspeed tools/weight_converter.py --load $MEGA_PATH --save $HF_PATH'-out' "
finetune="deepspeed finetune_llama.py --load $MEGA_PATH"
common="--tensor-model-parallel-size $TP \
--pipeline-model-parallel-size $PP \
--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --ffn-hidden-size 11008 \
--disable-bias-linear --normalization rmsnorm --swiglu --use-rotary-position-embeddings \
--seq-length 512 --max-position-embeddings 512 \
--micro-batch-size $MICRO --global-batch-size $GLOBAL \
--bf16 --zero-stage 0 --deepspeed_config $DS_CONFIG_PATH --deepspeed"
if [ "$1" = "to_mega" ]; then
    task="$to_mega"
elif [ "$1" = "to_hf" ]; then
    task="$to_hf"
else
    task="$finetune"
fi
full="$task $common"
eval "$full"
