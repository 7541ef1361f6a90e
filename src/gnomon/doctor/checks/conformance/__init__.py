"""Against the stock model of the same configuration and weights."""
