"""norm-axis: norms run over the features of one position, over nothing else."""

import torch
from torch import Tensor

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.layers.norms import Norm, norms
from gnomon.doctor.facts.training.optimizing import listed
from gnomon.doctor.finding import Outcome, Skip, failure, passed, warning

_FAULTY = """
    import torch
    from torch import nn

    class Norm(nn.Module):
        def __init__(self):
            super().__init__()
            self.gain = nn.Parameter(torch.ones(32))

        def forward(self, x):
            mean = x.mean(1, keepdim=True)  # over positions
            deviation = (x - mean).square().mean(1, keepdim=True).add(1e-5).sqrt()
            return self.gain * (x - mean) / deviation

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(50, 32)
            self.attention = nn.MultiheadAttention(32, 2, batch_first=True)
            self.norm = Norm()

        def forward(self, ids):
            x = self.embed(ids)
            return self.norm(x + self.attention(x, x, x, need_weights=False)[0])

    def patient():
        torch.manual_seed(0)
        return {"module": Model(), "batch": {"ids": torch.randint(1, 50, (2, 8))}}
"""
_MENDED = _FAULTY.replace("mean(1, keepdim", "mean(-1, keepdim").replace("  # over positions", "")


@check(
    code="norm-axis",
    title="Norms run over features alone",
    fault="Norms run over more than features",
    cost="probe",
    cause="The mean is taken over the wrong axis: a wrong dim, a transposed input, a "
    "normalized_shape of more than the features, or BatchNorm.",
    mend="Normalise over the last axis of [B, T, D]: nn.LayerNorm(D), nn.RMSNorm(D).",
    reference="Ba et al. 2016, Layer Normalization; Shen et al. 2020 (why not BatchNorm)",
    symptoms=("padding", "too-good", "gibberish"),
    example=_FAULTY,
    mended=_MENDED,
)
def norm_axis(case: Case) -> Outcome:
    """A norm over positions or rows lets texts, padding and the future leak into each other.

    It is told by changing one position (one row) of a norm's input and looking at the others.
    """
    found = norms(case)
    if not found:
        raise Skip("no normalisation was seen")
    wrong: dict[str, str] = {}
    batch = []
    for norm in found:
        if norm.call.kind == "batch":
            batch.append(norm.name)
            continue
        mixed = _mixed(case, norm)
        if mixed:
            wrong[norm.name] = mixed
    if wrong:
        name, what = next(iter(wrong.items()))
        return failure(
            f"{len(wrong)} of {len(found)} norms mix {what}: {listed(list(wrong))}",
            where=list(wrong),
            cause=f"{name} normalises over {what}, not over features alone.",
            count=len(wrong),
        )
    if batch:
        return warning(
            f"{len(batch)} norms are BatchNorm: in training they mix the batch's rows and "
            f"positions, padding included: {listed(batch)}",
            where=batch,
            cause="BatchNorm stands where Transformers have LayerNorm.",
            count=len(batch),
        )
    return passed(f"{len(found)} norms keep positions and rows apart", count=len(found))


def _mixed(case: Case, norm: Norm) -> str:
    """Which of positions and rows the norm mixes; "" if neither."""
    x = norm.call.input.detach()
    call = case.small
    lengths = {call.length(stream) for stream in call.streams}
    found = []
    for axis in range(x.dim() - (1 if x.dim() > 1 else 0)):
        runs_along = x.shape[axis] in lengths or x.shape[axis] in (
            call.num_rows(), call.num_rows() * max(lengths),
        )  # fmt: skip
        if runs_along and x.shape[axis] > 1 and _depends(norm, x, axis):
            found.append("positions" if x.shape[axis] in lengths else "rows")
    last = x.dim() - 1
    # A transposed input: the axis of features is not the last, that of positions is.
    if x.shape[last] in lengths and last in norm.call.dims and norm.call.kind is not None:
        features = {p.shape[-1] for p in case.module.parameters() if p.dim() == 2}
        if x.shape[last] not in features and x.dim() == 3:
            found.append("positions")
    return " and ".join(dict.fromkeys(found))


def _depends(norm: Norm, x: Tensor, axis: int) -> bool:
    """Whether the output at other places of an axis depends on what stands at its first."""
    if norm.module is None:
        return axis in norm.call.dims
    other = x.clone()
    generator = torch.Generator().manual_seed(0)
    first = other.select(axis, 0)
    first += (1 + x.std()) * torch.randn(first.shape, generator=generator).to(x)
    try:
        before, after = norm(x), norm(other)
    except Exception:  # it insists on something else
        return axis in norm.call.dims
    if before.shape != x.shape:
        return axis in norm.call.dims
    rest = slice(1, None)
    index = tuple(rest if each == axis else slice(None) for each in range(x.dim()))
    moved = (after[index] - before[index]).abs().max()
    return float(moved) > 1e-4 * float(before.abs().max())
