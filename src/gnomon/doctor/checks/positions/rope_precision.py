"""rope-precision: rotary angles are computed in fp32."""

import torch
from torch import Tensor

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.positions.rotary import rotary
from gnomon.doctor.finding import Outcome, Skip, failure, foremost, passed

_FAULTY = """
    import torch
    import torch.nn.functional as F
    from torch import nn

    def rotated(x):  # [B, T, 32]
        places = torch.arange(x.size(1), dtype=torch.bfloat16)  # 257 is 256 here
        angle = places[:, None] / 10000 ** (torch.arange(16) / 16)
        angle = torch.cat((angle, angle), -1)
        first, second = x.chunk(2, -1)
        return x * angle.cos() + torch.cat((-second, first), -1) * angle.sin()

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(50, 32)
            self.query, self.key = nn.Linear(32, 32), nn.Linear(32, 32)

        def forward(self, ids):
            x = self.embed(ids)
            q, k = rotated(self.query(x)), rotated(self.key(x))
            return F.scaled_dot_product_attention(q[:, None], k[:, None], x[:, None])[:, 0]

    def patient():
        torch.manual_seed(0)
        return {"module": Model(), "batch": {"ids": torch.randint(1, 50, (2, 12))}}
"""
_MENDED = _FAULTY.replace(", dtype=torch.bfloat16)  # 257 is 256 here", ")")
_MOST = 0.02  # of the scores' spread; fp32 stays below 0.001, bf16 vectors below it, too


@check(
    code="rope-precision",
    title="Rotary angles are computed in fp32",
    fault="Rotary angles lose precision",
    cost="probe",
    cause="Positions, frequencies or angles were in bf16 or fp16, whose numbers lie too far apart.",
    mend="Keep positions and frequencies in fp32 (also after model.to(bfloat16)), compute cosines "
    "and sines there, and cast only these.",
    reference="gpt-neox #1003; transformers #29285, #29496; vllm #863",
    symptoms=("long-input", "gibberish"),
    example=_FAULTY,
    mended=_MENDED,
)
def rope_precision(case: Case) -> Outcome:
    """bf16 cannot tell position 257 from 256, and its frequencies are off by up to 1/256.

    On a long text of one token, q_m · k_n has to depend on m − n alone at late positions as at
    early ones. Frequencies in a buffer are compared with the exact ones besides.
    """
    rounded = _rounded(case)
    said: list[str] = []
    skipped: list[Skip] = []
    for stream in case.small.streams:
        try:
            found = rotary(case, stream)
        except Skip as reason:
            skipped.append(reason)
            continue
        late = float(found.shift.max())
        early = float(found.shift[:12].max())
        if late > max(_MOST, _allowed(case.dtype)) and late > 3 * early:
            first = int((found.shift > 0.5 * late).nonzero()[0])
            return failure(
                f"on a {stream} of one token q_m · k_n of one distance moves by {late:.2g} of the "
                f"scores' spread at position {first}, and by {early:.1e} in the first twelve",
                where=found.worst.module,
                cause="Positions or angles are computed in half precision.",
                late=late,
                early=early,
            )
        said.append(
            f"over {found.shift.numel()} positions of a {stream} of one token q_m · k_n of one "
            f"distance moves by at most {late:.1e} of the scores' spread"
        )
    if not said:
        raise foremost(skipped)
    if rounded is not None:
        name, dtype, off = rounded
        return failure(
            f"the frequencies in {name} hold {dtype} numbers and are off by up to {off:.1e} of "
            f"their size: {off * 1000:.2g} radians at position 1000",
            where=name,
            cause=f"The frequencies were cast to {dtype}.",
            off=off,
        )
    return passed("; ".join(said))


def _allowed(dtype: torch.dtype) -> float:
    """Queries and keys themselves are rounded in a half-precision model."""
    return 0.1 if dtype == torch.bfloat16 else 0.03 if dtype == torch.float16 else 0.0


def _rounded(case: Case) -> tuple[str, str, float] | None:
    """A buffer of frequencies base^(-2i/K), from 1 downwards, that holds rounded numbers."""
    for name, buffer in case.module.named_buffers():
        if buffer.dim() != 1 or buffer.numel() < 4 or not buffer.is_floating_point():
            continue
        exact = _geometric(buffer.detach().double())
        if exact is None:
            continue
        for dtype in (torch.bfloat16, torch.float16):
            same = buffer.to(dtype).to(buffer.dtype)
            off = float(((buffer.double() - exact) / exact).abs().max())
            if torch.equal(same, buffer) and off > 1e-4:
                return name, str(dtype).removeprefix("torch."), off
    return None


def _geometric(values: Tensor) -> Tensor | None:
    """The exact series that these values round, None where they are none."""
    if abs(float(values[0]) - 1) > 1e-3 or not bool((values[1:] < values[:-1]).all()):
        return None
    if float(values[-1]) <= 0:
        return None
    steps = torch.arange(values.numel(), dtype=torch.float64, device=values.device)
    slope = float((values.log() * steps).sum() / steps.square().sum())
    exact = (slope * steps).exp()
    return exact if float((values / exact - 1).abs().max()) < 2e-2 else None
