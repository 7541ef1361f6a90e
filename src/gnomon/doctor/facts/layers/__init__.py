"""Layers and norms, found by what they do; matrices by the part they play."""
