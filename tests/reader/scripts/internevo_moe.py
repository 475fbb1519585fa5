JOB_NAME = "moe"
SEQ_LEN = 2048
HIDDEN_SIZE = 4096
MLP_RATIO = 4 / 3
VOCAB_SIZE = 103168
CHECKPOINT_EVERY = 50
ckpt = dict(enable_save_ckpt=False, every=int(CHECKPOINT_EVERY / 2), folder=f"local:{JOB_NAME}")
data = dict(
    seq_len=SEQ_LEN,
    # micro-batches of one update
    micro_num=4,
    micro_bsz=2,
    train_folder=None,
)
grad_scaler = dict(fp16=dict(initial_scale=2**16), max_scale=2**24)
lr_scheduler = dict(total_steps=data["seq_len"], init_steps=0)
model = dict(
    checkpoint=False,
    num_attention_heads=32,
    vocab_size=VOCAB_SIZE,
    hidden_size=HIDDEN_SIZE,
    num_layers=32,
    mlp_ratio=MLP_RATIO,
    dtype="torch.bfloat16",
    num_experts=4,
    top_k=2,
)
"""zero1: size <= 0 means the whole data-parallel group."""
parallel = dict(
    zero1=dict(size=-1, fsdp=False),
    tensor=dict(size=1, mode="mtp"),
    pipeline=dict(size=1, interleaved_overlap=True),
    expert=dict(size=-1, no_tp=False),
)
