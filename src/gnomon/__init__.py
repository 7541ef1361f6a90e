"""gnomon: train, check, ship and explain Transformers on your own text."""

__version__ = "0.1.0"
