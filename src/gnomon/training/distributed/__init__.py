"""Several processes ("ranks") that take each step together, over torch.distributed.

One rank is the plain case of the same code: every exchange between ranks is then no work at all.
Nothing here knows the loop, the run or its files but for the signs of life.
"""

from gnomon.training.distributed.config import DistributedConfig
from gnomon.training.distributed.launch import joined, own_rank
from gnomon.training.distributed.parallel import Parallel, direct_forward
from gnomon.training.distributed.strategy import choose_parallel
from gnomon.training.distributed.world import World

__all__ = [
    "DistributedConfig",
    "Parallel",
    "World",
    "choose_parallel",
    "direct_forward",
    "joined",
    "own_rank",
]
