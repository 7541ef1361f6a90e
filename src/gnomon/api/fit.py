"""The largest micro-batch that fits into the memory there is, found by trying, without a crash."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gnomon.api.forecast import scratch_beside
from gnomon.api.jobs import job_of
from gnomon.api.load import model_folder
from gnomon.api.train import Say, run_path, with_network
from gnomon.api.trial import OUT_OF_MEMORY
from gnomon.errors import RecipeError
from gnomon.files import write_atomically
from gnomon.recipes import Recipe, to_toml
from gnomon.training import RunFolder, choose_device
from gnomon.training.memory.available import available_bytes

_FIRST = 1024  # tokens of the first trial
_SHARE = 0.9  # of the free memory that a training may fill
_TRIALS = 8  # at most
_STEP = 64  # by whose multiples sizes differ
_AIM = 0.98  # of the limit, which the line may miss by a little
_LITTLE = 1.05  # times what fits that are not worth another trial


@dataclass(frozen=True)
class Trial:
    """A step that was tried.

    Attributes:
        tokens_per_batch: of the recipe that was tried.
        rows, source_length, target_length: the batch of the longest texts.
        activations: what is foreseen that its forward pass keeps.
        peak: memory of the process; None where it was refused.
        fits: whether it is within the limit.
    """

    tokens_per_batch: int
    fits: bool
    peak: int | None = None
    rows: int | None = None
    source_length: int | None = None
    target_length: int | None = None
    activations: int | None = None


@dataclass(frozen=True)
class Fit:
    """What fits.

    Attributes:
        trials: in the order in which they were made.
        free: bytes that were to be had.
        limit: of them those that a training may fill.
        tokens_per_step: of the recipe; a micro-batch is never larger.
        tokens_per_batch, accumulate: what to set: as many tokens a step as the recipe has, in the
            fewest micro-batches that fit.
    """

    trials: Sequence[Trial]
    free: int
    limit: int
    tokens_per_step: int
    tokens_per_batch: int
    accumulate: int


def fit(
    recipe: Recipe,
    *,
    run: str | Path | None = None,
    start_from: str | Path | None = None,
    free: int | None = None,
    say: Say = lambda message: None,
) -> Fit:
    """Find the fewest micro-batches that a recipe's step fits into memory with.

    Each trial is a process of its own that takes one step of its largest batches, under a limit
    within which it is refused memory instead of killed. Nothing is written.

    Args:
        recipe: see `read_recipe`.
        run, start_from: see `train`.
        free: bytes to be had; None: what is free now.
        say: told what is tried.

    Raises:
        RecipeError: not even one text fits, or it is not known how much memory is free.
    """
    folder = run_path(recipe, run)
    device = choose_device(recipe.training.device)
    free = available_bytes(device) if free is None else free
    if free is None or (device.type == "cpu" and not Path("/proc/self/status").exists()):
        raise RecipeError("--fit measures memory as Linux tells it, or on a GPU", seen=sys.platform)
    limit = int(_SHARE * free)
    recipe = with_network(recipe, RunFolder(folder), start_from, say)
    with scratch_beside(folder, say) as cache:
        start = None if start_from is None else model_folder(start_from)
        job_of(recipe, lambda message: None).prepare(cache, [], start)

        def attempt(tokens_per_batch: int) -> Trial:
            say(f"trying training.tokens_per_batch={tokens_per_batch}")
            training = replace(recipe.training, tokens_per_batch=tokens_per_batch)
            path = cache / "trial.toml"
            write_atomically(path, to_toml(replace(recipe, training=training)))
            request = {"recipe": path, "cache": cache, "start_from": start_from, "limit": free}
            return _trial(tokens_per_batch, request, limit)

        step = recipe.training.tokens_per_batch * recipe.training.accumulate
        trials = search(attempt, step, limit)
    best = max((trial.tokens_per_batch for trial in trials if trial.fits), default=None)
    if best is None:
        raise RecipeError(
            "a batch must fit into memory",
            seen=f"{limit / 2**20:,.0f} MiB to be had, {_FIRST} tokens do not fit",
            mend="set memory.recompute = 'full', a smaller data.max_length or a smaller model",
        )
    accumulate = -(-step // best)
    return Fit(trials, free, limit, step, -(-step // accumulate), accumulate)


def search(attempt: Callable[[int], Trial], most: int, limit: int) -> list[Trial]:
    """Try sizes up to `most`, until a larger one that fits would be little larger.

    Memory grows by the same for every token, or nearly, so that the line through two trials says
    what to try next; nothing is believed that was not tried.
    """
    trials = [attempt(min(_FIRST, most))]
    while trials[0].fits and len(trials) < _TRIALS:
        best = max((one for one in trials if one.fits), key=_size)
        size = min(_next(trials, best, limit), most)
        if (size < _LITTLE * _size(best) and size < most) or size <= _size(best):
            break
        trials.append(attempt(size))
    return trials


def _next(trials: Sequence[Trial], best: Trial, limit: int) -> int:
    """The size to try after these."""
    beyond = min((one for one in trials if _size(one) > _size(best)), key=_size, default=None)
    if beyond is not None and beyond.peak is None:  # it was refused
        return (_size(best) + _size(beyond)) // 2
    below = max((one for one in trials if _size(one) < _size(best)), key=_size, default=None)
    other = beyond or below
    if other is None:
        return 4 * _size(best)
    assert best.peak is not None and other.peak is not None, "what fits was measured"
    per_token = max(1.0, (other.peak - best.peak) / (_size(other) - _size(best)))
    return _size(best) + int((_AIM * limit - best.peak) / per_token) // _STEP * _STEP


def _size(trial: Trial) -> int:
    return trial.tokens_per_batch


def _trial(tokens_per_batch: int, request: dict[str, Any], limit: int) -> Trial:
    done = subprocess.run(
        [sys.executable, "-m", "gnomon.api.trial"],
        input=json.dumps(request, default=str),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == OUT_OF_MEMORY or done.returncode < 0:  # refused, or killed all the same
        return Trial(tokens_per_batch, fits=False)
    if done.returncode:
        raise RecipeError("a trial step must end well", seen=done.stderr[-2000:])
    found = json.loads(done.stdout)
    return Trial(tokens_per_batch, fits=found["peak"] <= limit, **found)
