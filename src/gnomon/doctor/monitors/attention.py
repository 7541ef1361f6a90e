"""How sharply heads look, and whether they look at all: from one observed forward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar

import torch
from torch import Tensor, nn

from gnomon.doctor.finding import Finding
from gnomon.doctor.monitors.monitor import Monitor, Seen, suspicion
from gnomon.probe import AttentionCall, observe

_FEWEST_KEYS = 4  # a query that may see fewer says little about sharpness
_MOST = 0.75  # of the heads, that make a pattern of the whole model
_ONE_KEY = 0.95  # mean weight on one and the same key
_SHARP = 0.05  # entropy, as a share of the largest possible
_DEAD = 1e-4  # size of a head's output against the median head of its call


class Attention(Monitor):
    """Entropy and concentration of every head, on one small batch in evaluation mode.

    Args:
        model: what is observed.
        run: calls it on that batch.
    """

    kind: ClassVar[str] = "attention"

    def __init__(self, model: nn.Module, run: Callable[[], object]) -> None:
        self._model, self._run = model, run

    @torch.no_grad()
    def on_update(self, step: int) -> Seen | None:
        """Observe one forward pass."""
        with evaluating(self._model), observe(self._model) as record:
            self._run()
        heads = [head for call in record.attention for head in measure(call)]
        if not heads:
            return None
        values: dict[str, float] = {}
        for module in dict.fromkeys(head.module for head in heads):
            mine = [head.entropy for head in heads if head.module == module]
            values[f"entropy/{module or 'model'}"] = sum(mine) / len(mine)
        values["lowest_entropy"] = min(head.entropy for head in heads)
        values["most_on_one_key"] = max(head.one_key for head in heads)
        dead = [head.place for head in heads if head.size < _DEAD]
        values["dead_heads"] = float(len(dead))
        return Seen(values, _collapse(step, heads) or _dead(step, dead, len(heads)))


class Head:
    """What is measured of one head.

    Attributes:
        entropy: mean over queries, as a share of the largest possible one.
        one_key: mean weight of the key that gets most.
        size: root mean square of its output against the median head of its call.
    """

    def __init__(self, module: str, number: int, entropy: float, one_key: float, size: float):
        self.module, self.entropy, self.one_key, self.size = module, entropy, one_key, size
        self.place = f"head {number} of {module or 'the model'}"


def measure(call: AttentionCall) -> Iterable[Head]:
    """Every head of one attention call with at least four keys."""
    weights = call.weights
    if weights is None or weights.dim() != 4:
        return
    weights = weights.detach().float()
    _, num_heads, _, num_keys = weights.shape
    seen = weights > 0 if call.keep is None else call.keep.expand_as(weights)
    counts = seen.sum(-1)  # [B, H, T]
    wide = counts >= _FEWEST_KEYS
    if num_keys < _FEWEST_KEYS or not bool(wide.any()):
        return
    entropy = -(weights * weights.clamp_min(1e-30).log()).sum(-1) / counts.clamp_min(2).log()
    per_query = torch.where(wide, entropy, entropy.new_zeros(()))
    sharpness = per_query.sum((0, 2)) / wide.sum((0, 2)).clamp_min(1)
    # One text at a time: the mean over its queries of each key's weight.
    rows = (weights * wide[..., None]).sum(2) / wide.sum(2)[..., None].clamp_min(1)  # [B, H, S]
    share = rows.amax(-1).sum(0) / wide.any(2).sum(0).clamp_min(1)
    sizes = _sizes(call.output, num_heads)
    for number, (one, two, three) in enumerate(
        zip(sharpness.tolist(), share.tolist(), sizes, strict=True)
    ):
        yield Head(call.module, number, one, two, three)


def _sizes(output: Tensor | None, num_heads: int) -> list[float]:
    """Root mean square of each head's output, relative to the median; 1 where it is not seen."""
    if output is None or output.dim() != 4 or output.size(1) != num_heads:
        return [1.0] * num_heads
    sizes = output.detach().float().square().mean((0, 2, 3)).sqrt()
    middle = float(sizes.sort().values[num_heads // 2])  # of two heads the louder
    return (sizes / middle).tolist() if middle > 0 else [1.0] * num_heads


def _collapse(step: int, heads: list[Head]) -> Finding | None:
    stuck = [head for head in heads if head.one_key > _ONE_KEY]
    sharp = [head for head in heads if head.entropy < _SHARP]
    if len(stuck) >= _MOST * len(heads):
        evidence = (
            f"at step {step} {len(stuck)} of {len(heads)} heads put over {_ONE_KEY:.0%} of their "
            "weight on one and the same key, whatever the query"
        )
        cause = "Attention has collapsed onto one token: early updates overshot."
        which = stuck
    elif len(sharp) >= _MOST * len(heads):
        entropy = sum(head.entropy for head in sharp) / len(sharp)
        evidence = (
            f"at step {step} {len(sharp)} of {len(heads)} heads look at a single key a query "
            f"(entropy {entropy:.1%} of the largest possible): hardly any gradient passes their "
            "softmax"
        )
        cause = "Scores have grown far beyond 1: the scale 1/√d_k is missing, or queries and keys "
        cause += "grow without bound."
        which = sharp
    else:
        return None
    return suspicion(
        "entropy-collapse",
        "Attention has collapsed onto single tokens",
        evidence,
        where=[head.place for head in which[:6]],
        cause=cause,
        mend="Start again with a longer warm-up and a lower peak learning rate; check the scale "
        "of the scores, or norm queries and keys.",
        reference="Zhai et al. 2023, Stabilizing Transformer Training by Preventing Attention "
        "Entropy Collapse",
        share=len(which) / len(heads),
    )


def _dead(step: int, dead: list[str], num_heads: int) -> Finding | None:
    if not dead:
        return None
    return suspicion(
        "dead-heads",
        "Heads add nothing",
        f"at step {step} the output of {len(dead)} of {num_heads} heads is below "
        f"{_DEAD:.0e} of their neighbours'",
        where=dead,
        cause="Its value projection is zero, or was driven there by weight decay.",
        mend="Look at how these heads are initialised and whether they get a gradient; prune "
        "them if they are meant to be off.",
        reference="Michel et al. 2019, Are Sixteen Heads Really Better than One?",
        count=len(dead),
    )


class evaluating:  # noqa: N801 - a context manager, used like a function
    """Evaluation mode within the block; each module's own mode afterwards."""

    def __init__(self, model: nn.Module) -> None:
        self._modes = [(each, each.training) for each in model.modules()]
        self._model = model

    def __enter__(self) -> None:
        self._model.eval()

    def __exit__(self, *_: object) -> None:
        for each, mode in self._modes:
            each.training = mode
