"""residual: every sublayer adds to its input, with factor 1."""

from collections import defaultdict
from statistics import median
from typing import Any

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.layers.blocks import Block
from gnomon.doctor.facts.training.optimizing import listed
from gnomon.doctor.finding import Outcome, failure, passed, warning

_FAULTY = """
    import torch
    from torch import nn

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(32), nn.LayerNorm(32)
            self.attention = nn.MultiheadAttention(32, 2, batch_first=True)
            self.ff = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32))

        def forward(self, x):
            y = self.norm1(x)
            x = x + self.attention(y, y, y, need_weights=False)[0]
            return self.ff(self.norm2(x))  # what came in is lost

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(50, 32)
            self.layers = nn.ModuleList(Layer() for _ in range(3))

        def forward(self, ids):
            x = self.embed(ids)
            for layer in self.layers:
                x = layer(x)
            return x

    def patient():
        torch.manual_seed(0)
        return {"module": Model(), "batch": {"ids": torch.randint(1, 50, (2, 8))}}
"""
_MENDED = _FAULTY.replace(
    "return self.ff(self.norm2(x))  # what came in is lost", "return x + self.ff(self.norm2(x))"
)
_LOST, _NEAR, _OFF = 0.35, 0.15, 0.3


@check(
    code="residual",
    title="Residual connections are whole",
    fault="Residual connections are broken",
    cost="probe",
    cause="A sublayer's output replaces its input instead of being added to it.",
    mend="x + Sublayer(x), with dropout on the sublayer's output alone.",
    reference="He et al. 2016; Vaswani et al. 2017, section 3.1",
    symptoms=("stuck", "gibberish"),
    example=_FAULTY,
    mended=_MENDED,
)
def residual(case: Case) -> Outcome:
    """The identity path carries the signal up and the gradient down; without it depth does harm.

    For every layer the share of an earlier place of its stream in each later one is measured: 1
    behind a residual connection. A place of one layer is judged by the same place of the others.
    """
    blocks = case.blocks
    places: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for block in blocks:
        for place, share in block.coefficients.items():
            places[block.stack, place][block.name] = share
    lost: dict[str, float] = {}
    scaled: dict[str, float] = {}
    everywhere: dict[str, float] = {}
    for (_, place), shares in places.items():
        best = min(shares.values(), key=lambda value: abs(value - 1))
        if abs(best - 1) < _NEAR:
            odd = {f"{b}: {place}": c for b, c in shares.items() if abs(c - 1) > _OFF}
            lost |= {where: c for where, c in odd.items() if abs(c) < _LOST}
            scaled |= {where: c for where, c in odd.items() if abs(c) >= _LOST}
        else:
            everywhere |= {f"{b}: {place}": c for b, c in shares.items()}
    by_stack: dict[str, list[Block]] = defaultdict(list)
    for block in blocks:
        by_stack[block.stack].append(block)
    for members in by_stack.values():
        if median(abs(b.through) for b in members) < _NEAR:
            names = {b.name for b in members}
            lost |= {w: c for w, c in everywhere.items()
                     if w.split(":")[0] in names and abs(c) < _LOST}  # fmt: skip
            if not any(b.coefficients for b in members):  # no norm on the stream was seen
                lost |= {b.name: b.through for b in members}
    # A norm between a sublayer and the sum (sandwich) sees no residual, and needs none.
    post = {block.name for block in blocks if block.ends_with_norm}
    common = {
        where: c
        for where, c in everywhere.items()
        if _LOST <= abs(c) < 1 - _OFF or (c > 1 + _OFF and where.split(":")[0] not in post)
    }
    numbers: dict[str, Any] = {"shares": {b.name: dict(b.coefficients) for b in blocks}}
    if lost:
        where, share = next(iter(lost.items()))
        return failure(
            f"the stream is not carried on at {listed(list(lost))}: {where.split(': ')[-1]} holds "
            f"{share:.2f} of what came in, 1 behind a residual connection",
            where=[each.split(":")[0] for each in lost],
            cause=_sublayer(list(lost)),
            **numbers,
        )
    if scaled:
        where, share = next(iter(scaled.items()))
        return failure(
            f"what comes in is scaled by {share:.2f} at {listed(list(scaled))}, by 1 at the same "
            "place of other layers",
            where=[each.split(":")[0] for each in scaled],
            cause="The identity path of these layers is multiplied with a factor.",
            mend="Scale the sublayer's output if anything, not what it is added to.",
            **numbers,
        )
    if common:
        where, share = next(iter(common.items()))
        return warning(
            f"what comes in is scaled by {share:.2f} in every layer ({listed(list(common))})",
            where=[each.split(":")[0] for each in common],
            cause="The identity path is multiplied with a factor in every layer: after N layers "
            "with its Nth power.",
            mend="x + Sublayer(x); DeepNorm's factor on x is larger than 1 and followed by a norm.",
            **numbers,
        )
    return passed(f"{len(blocks)} layers add to what comes in", **numbers)


def _sublayer(lost: list[str]) -> str:
    return (
        "A sublayer's output replaces its input instead of being added to it: the one before "
        f"{lost[0].split(': ')[-1].removesuffix('.in')}."
        if ": " in lost[0] and not lost[0].endswith(": out")
        else "The layer's last sublayer (the feed-forward) replaces its input instead of being "
        "added to it."
        if lost[0].endswith(": out")
        else "No path of the layer carries its input to its output."
    )
