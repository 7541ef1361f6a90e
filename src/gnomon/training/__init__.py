"""Batches → weights: objective, schedule, optimizer, precision, the loop and its checkpoints.

The loop drives anything that has the shape of `task.Task`; it never learns what a translation or
a tokenizer is. Validation, progress bars and logs reach it as callables and listeners, so nothing
here may import a room that lies above (recipes, api, cli).
"""

from gnomon.training.allocator import bound_kernel_caches
from gnomon.training.averaging import Average, AveragingConfig, write_mean, write_record
from gnomon.training.checkpoint import check_weights
from gnomon.training.config import TrainingConfig
from gnomon.training.distributed import DistributedConfig, World, joined, own_rank
from gnomon.training.events import (
    AverageRecord,
    CheckpointRecord,
    FailedStep,
    Listener,
    LogRecord,
    MonitorRecord,
    Monitors,
    Outcome,
    StartRecord,
    StepRecord,
    ValidationRecord,
)
from gnomon.training.guard import NonFinite, find_non_finite
from gnomon.training.log import TensorBoardLog, read_metrics
from gnomon.training.loop import Trainer
from gnomon.training.memory import MemoryConfig
from gnomon.training.objective import Objective, ObjectiveConfig
from gnomon.training.optimizers import OptimizerConfig
from gnomon.training.precision import choose_device
from gnomon.training.run import RunFolder
from gnomon.training.schedule import ScheduleConfig
from gnomon.training.task import Task
from gnomon.training.validation import Validate

__all__ = [
    "Average",
    "AverageRecord",
    "AveragingConfig",
    "CheckpointRecord",
    "DistributedConfig",
    "FailedStep",
    "Listener",
    "LogRecord",
    "MemoryConfig",
    "MonitorRecord",
    "Monitors",
    "NonFinite",
    "Objective",
    "ObjectiveConfig",
    "OptimizerConfig",
    "Outcome",
    "RunFolder",
    "ScheduleConfig",
    "StartRecord",
    "StepRecord",
    "Task",
    "TensorBoardLog",
    "Trainer",
    "TrainingConfig",
    "Validate",
    "ValidationRecord",
    "World",
    "check_weights",
    "choose_device",
    "find_non_finite",
    "joined",
    "own_rank",
    "read_metrics",
    "write_mean",
    "write_record",
]

bound_kernel_caches()
