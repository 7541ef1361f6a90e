"""Beside the same model: stock, loaded again, converted; where two runs part."""
