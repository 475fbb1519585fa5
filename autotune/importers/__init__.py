"""Cluster files from what machines already say: nvidia-smi, NCCL, Slurm, host lists and cloud instance names."""
