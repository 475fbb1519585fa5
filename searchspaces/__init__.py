"""Which plans exist: axes, legality rules, the index <-> point lattice and rank placement. Knows nothing of files."""
