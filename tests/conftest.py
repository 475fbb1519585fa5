"""Hypothesis without deadlines: the first example of a compiled function pays for its compilation, and machines are shared."""

from hypothesis import settings

settings.register_profile("autotune", deadline=None)
settings.load_profile("autotune")
