"""Plan how to split and launch a large-model training job, and the network under it.

>>> import autotune
>>> autotune.__version__
'0.1.0'
"""

__version__ = "0.1.0"
