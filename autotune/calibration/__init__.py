"""Fitting one cluster's efficiency constants from its owner's measurements.

`nccl` and `gpu_table` read measurement files, `residuals` compares them with the cost model, `calibrate` fits.
"""
