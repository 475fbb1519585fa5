"""The physics: pure functions of numbers, compiled with Numba. Knows nothing of files, Optuna or launch flags."""
