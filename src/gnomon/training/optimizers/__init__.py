"""Gradients → weights: the rules that a recipe may choose from, over groups by role and depth."""

from gnomon.training.optimizers.config import OptimizerConfig, OptimizerName
from gnomon.training.optimizers.groups import ParameterGroup, describe_groups, group_parameters
from gnomon.training.optimizers.optimizer import Optimizer

__all__ = [
    "Optimizer",
    "OptimizerConfig",
    "OptimizerName",
    "ParameterGroup",
    "describe_groups",
    "group_parameters",
]
