"""The toolkits that `training_speed.py` compares, each driven through its own command line.

One module per toolkit says how to install it, how to write the common setting in its own
configuration, and what its log calls a token. They share no training code.
"""
