"""Scoring of the cost model against measured training runs.

`rows` reads measurements, `mapping` turns each into a cluster, a model and a plan, `runner` predicts, `scoring` compares,
`baselines` gives the naive predictors printed beside, `fit` and `folds` fit constants honestly, `report` writes.
"""
