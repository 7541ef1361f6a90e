"""From what a user names (a run, a folder, a recipe, files, a function) to a `Patient`."""

from gnomon.doctor.targets.open import open_target
from gnomon.doctor.targets.target import Options, Target

__all__ = ["Options", "Target", "open_target"]
