"""Where the time of a step goes, by PyTorch's profiler: which operations, a table, a trace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from gnomon.files import write_atomically
from gnomon.training.events import Listener, StepRecord

# The first group whose words stand in an operation's name has it.
_GROUPS: Mapping[str, tuple[str, ...]] = {
    "optimizer": ("_fused_", "_foreach_"),
    "fused attention": ("scaled_dot_product", "flash_attention"),
    "matrix products": ("addmm", "::mm", "bmm", "mkldnn", "linear", "matmul", "_lstm"),
    "softmax": ("softmax", "logsumexp"),
    "norms": ("_norm", "var_mean", "rsqrt"),
    "random draws": ("random", "bernoulli", "rand"),
    "copies and casts": ("copy", "clone", "::cat", "contiguous", "repeat"),
    "embeddings, choosing rows": ("embedding", "index", "gather", "scatter", "nonzero", "masked"),
    "activations": ("relu", "gelu", "silu", "threshold", "tanh", "sigmoid"),
    "zeros": ("zero_", "fill_"),
    "sums, products of elements": ("::add", "::mul", "::sub", "::div", "::sum", "exp", "amax"),
}
_BEFORE = 5  # steps that are not recorded: caches fill, memory grows


def group_of(operation: str) -> str:
    """What kind of work an operation is, by its name."""
    for name, words in _GROUPS.items():
        if any(word in operation for word in words):
            return name
    return "everything else"


def by_group(events: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Time by kind of work, most first.

    Args:
        events: names of operations and the time of each, without what it called.
    """
    found: dict[str, float] = {}
    for name, took in events:
        group = group_of(name)
        found[group] = found.get(group, 0.0) + took
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def self_times(recorded: profile) -> list[tuple[str, float]]:
    """Of each operation the seconds on the device that does the work, without what it called."""
    on_device = torch.cuda.is_available()
    return [
        (
            event.key,
            (event.self_device_time_total if on_device else event.self_cpu_time_total) / 1e6,
        )
        for event in recorded.key_averages()
    ]


class ProfileSteps(Listener):
    """Records some steps of a training: `trace.json` for a viewer, `table.txt` for a person.

    The trace opens in https://ui.perfetto.dev or chrome://tracing.

    Args:
        folder: of the two files.
        num_steps: to record, after the first few of this process.
        say: told where they are.
    """

    def __init__(self, folder: Path, num_steps: int, say: Callable[[str], None]) -> None:
        self.folder = folder
        self.num_steps = num_steps
        self._say = say
        self._seen = 0
        self._profiler: profile | None = None

    def on_step(self, record: StepRecord) -> None:
        """Begin, or end, where it is time to."""
        self._seen += 1
        if self._seen == _BEFORE:
            activities = [ProfilerActivity.CPU]
            if torch.cuda.is_available():
                activities.append(ProfilerActivity.CUDA)
            self._profiler = profile(activities=activities)
            self._profiler.start()
        elif self._seen == _BEFORE + self.num_steps:
            self._finish(self.num_steps)

    def close(self) -> None:
        """A training that ends before is recorded as far as it went."""
        if self._profiler is not None:
            self._finish(self._seen - _BEFORE)

    def _finish(self, num_steps: int) -> None:
        recorded, self._profiler = self._profiler, None
        assert recorded is not None, "it was begun"
        recorded.stop()
        if num_steps < 1:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        recorded.export_chrome_trace(str(self.folder / "trace.json"))
        write_atomically(self.folder / "table.txt", _table(recorded, num_steps))
        self._say(f"profile of {num_steps} steps: {self.folder}/table.txt, trace.json")


def _table(recorded: profile, num_steps: int) -> str:
    groups = by_group(self_times(recorded))
    total = sum(groups.values())
    lines = [f"{'kind of work':<28}{'ms a step':>12}{'share':>8}"]
    lines += [
        f"{name:<28}{1e3 * took / num_steps:>12.2f}{took / total:>8.1%}"
        for name, took in groups.items()
    ]
    key = "self_cuda_time_total" if torch.cuda.is_available() else "self_cpu_time_total"
    return "\n".join([*lines, "", recorded.key_averages().table(sort_by=key, row_limit=40), ""])
