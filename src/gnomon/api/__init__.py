"""The main jobs as functions: here the rooms are wired together, for Python and command line."""

from gnomon.api.average import average
from gnomon.api.evaluate import evaluate, evaluate_files
from gnomon.api.load import load, model_folder
from gnomon.api.pairs import given_pairs
from gnomon.api.train import Training, prepare, read_recipe, train

__all__ = [
    "Training",
    "average",
    "evaluate",
    "evaluate_files",
    "given_pairs",
    "load",
    "model_folder",
    "prepare",
    "read_recipe",
    "train",
]
