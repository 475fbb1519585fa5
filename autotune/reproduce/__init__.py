"""Published results rebuilt from the cost models: claims with tolerances and verdicts, and the figures behind them."""
