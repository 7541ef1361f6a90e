"""empty-weights: no projection is partly zero, and none is one number throughout."""

from torch import Tensor

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.layers.kinds import by_kind, matrices
from gnomon.doctor.facts.training.optimizing import listed
from gnomon.doctor.finding import Outcome, Skip, failure, passed, warning

_FAULTY = """
    import torch
    from torch import nn

    def patient():
        torch.manual_seed(0)
        module = nn.TransformerEncoderLayer(32, 2, 64, batch_first=True)
        with torch.no_grad():
            module.linear1.weight[:16] = 0.0  # a smaller file, copied into a larger layer
        return {"module": module, "batch": {"src": torch.randn(2, 6, 32)}}
"""
_MENDED = _FAULTY.replace("weight[:16] = 0.0", "weight[:16] *= 0.9")
_FEWEST = 8  # numbers of a row or column that is judged


@check(
    code="empty-weights",
    title="No projection is partly empty",
    fault="Part of a projection is empty",
    cost="static",
    cause="The matrix was filled only in part (a smaller checkpoint, a shard that is missing), or "
    "pruned.",
    mend="Load or draw these weights anew; where units were pruned on purpose, make the layer "
    "smaller instead.",
    reference="Kurtic et al. 2022 (what structured pruning leaves); transformers #24505 (shards "
    "that do not arrive)",
    symptoms=("gibberish", "stuck", "deployed"),
    example=_FAULTY,
    mended=_MENDED,
)
def empty_weights(case: Case) -> Outcome:
    """No initialisation and no training leaves exact zeros in whole rows or columns of a matrix,
    or one number in all of it.

    A matrix that is zero throughout is a usual beginning of a last projection (adapters, residual
    branches). It is told where the model is trained, or where the same projection of other layers
    holds something.
    """
    found = {n: w for n, w in matrices(case).items() if max(w.shape) >= _FEWEST}
    if not found:
        raise Skip("the model has no projection of 8 units or more")
    lost = {name: _lost(weight) for name, weight in found.items()}
    even = [n for n, w in found.items() if lost[n] < 1 and bool((w == w.flatten()[0]).all())]
    if even:
        return failure(
            f"all elements of {listed(even)} are one number ({float(found[even[0]][0, 0]):.3g})",
            where=even,
            cause="An initialisation for gains was applied to a matrix: all its units are one.",
            mend="Draw it from a distribution (Xavier, N(0, 0.02)), or load it again.",
        )
    partly = [name for name, share in lost.items() if 0 < share < 1]
    if partly:
        worst = max(partly, key=lambda name: lost[name])
        return warning(
            f"{lost[worst]:.0%} of the rows or columns of {worst} are exactly zero "
            f"({len(partly)} of {len(found)} projections have such)",
            where=partly,
            empty={name: lost[name] for name in partly},
        )
    whole = [name for name, share in lost.items() if share == 1]
    if case.is_fresh is not False:
        alike = by_kind(found)
        whole = [n for names in alike.values() if any(lost[n] < 1 for n in names)
                 for n in names if lost[n] == 1]  # fmt: skip
    if whole:
        return warning(
            f"{len(whole)} of {len(found)} projections are zero throughout: {listed(whole)}",
            where=whole,
            cause="They were never loaded or trained, or overwritten.",
        )
    return passed(f"none of {len(found)} projections has a row or column of zeros")


def _lost(weight: Tensor) -> float:
    """The larger share of rows, or of columns, that are zero; those of few numbers do not count."""
    zero = weight == 0
    return max(float(zero.all(dim).float().mean()) for dim in (0, 1) if weight.size(dim) >= _FEWEST)
