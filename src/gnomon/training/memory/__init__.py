"""What is kept of a forward pass for the backward pass: as it is, in 8 bits, or made again."""

from gnomon.training.memory.config import MemoryConfig
from gnomon.training.memory.keeping import Keeping, keeping, last_layer_kept

__all__ = ["Keeping", "MemoryConfig", "keeping", "last_layer_kept"]
