"""bf16-positions: positions are told apart when the model computes in bf16."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gnomon.doctor.call import Call, StreamName
from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.beside.converted import converted
from gnomon.doctor.facts.positions.lookups import lookups
from gnomon.doctor.facts.positions.sinusoids import jitter, sinusoid_tables
from gnomon.doctor.finding import NotApplicable, Outcome, Skip, failure, passed
from gnomon.doctor.run import run
from gnomon.doctor.what_if import judged

_FAULTY = """
    import torch
    from torch import nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(50, 32)
            self.attention = nn.MultiheadAttention(32, 2, batch_first=True)

        def forward(self, ids):
            x = self.embed(ids)
            place = torch.arange(ids.size(1)).to(x.dtype)[:, None]  # 257 is 256 in bf16
            rate = torch.exp(-torch.arange(0, 32, 2) / 32 * 9.21).to(x.dtype)
            x = x + torch.cat([(place * rate).sin(), (place * rate).cos()], -1)
            return self.attention(x, x, x, need_weights=False)[0]

    def patient():
        torch.manual_seed(0)
        ids = torch.randint(1, 50, (2, 8))
        return {"module": Model(), "batch": {"ids": ids}, "precision": "bf16"}
"""
_MENDED = (
    _FAULTY.replace(
        "torch.arange(ids.size(1)).to(x.dtype)[:, None]  # 257 is 256 in bf16",
        "torch.arange(ids.size(1)).float()[:, None]",
    )
    .replace("9.21).to(x.dtype)", "9.21)")
    .replace("(place * rate).cos()], -1)", "(place * rate).cos()], -1).to(x.dtype)")
)
_LENGTH, _SHORTEST = 400, 48  # bf16 holds every whole number up to 256, their multiples less far
_WORSE, _BAD, _BROKEN = 4.0, 0.02, 0.1
_OFF = 0.03  # radians; a table in bf16 whose angles were in fp32 stays below 0.01
_MOST = 300_000_000  # parameters of a model that is copied


@check(
    code="bf16-positions",
    title="Positions survive bf16",
    fault="Positions would not survive bf16",
    cost="probe",
    cause="Positions or rotary phases are computed in the model's dtype: in bf16 all whole numbers "
    "above 256 fall together in twos, above 512 in fours.",
    mend="Compute positions, frequencies, sines and cosines in fp32; convert the result.",
    reference="transformers #25681, #29285; gpt-neox #1003",
    symptoms=("long-input", "gibberish"),
    example=_FAULTY,
    mended=_MENDED,
)
def bf16_positions(case: Case) -> Outcome:
    """bf16 counts to 256: a phase computed in it is wrong by whole radians further on.

    A copy of the model in bf16 and one in fp32 read a text of up to 400 tokens. Queries and keys
    of the first attention may differ by rounding, but not more at late positions than at early
    ones. In a table of sines and cosines every position must turn by the same angle.
    """
    for name, angles in sinusoid_tables(case.module):
        off = jitter(angles)
        if off > _OFF:
            return failure(
                f"the angle of {name} moves from one position to the next by up to {off:.2f} "
                "radians more or less than usual",
                where=name,
                cause="The table was computed from angles in half precision.",
                off=off,
            )
    if case.reads_vectors:
        raise NotApplicable("the model reads vectors: whoever makes them adds the positions")
    found, skipped = list[_Errors](), list[Skip]()
    for name in case.small.streams:
        try:
            found.append(_errors(case, name))
        except Skip as skip:
            skipped.append(skip)
    if not found:
        raise skipped[0]
    worst = max(found, key=lambda each: each.late)
    early, late = worst.early, worst.late
    evidence = (
        f"in bf16 queries and keys are off by {early:.1%} of their size at the first "
        f"{worst.count // 4} positions, by {late:.1%} at the last of {worst.count}"
    )
    if late > _BAD and late > _WORSE * early:
        return judged(
            case, "bf16", evidence, where=worst.module, certain=late > _BROKEN, early=early,
            late=late,
        )  # fmt: skip
    return passed(evidence, early=early, late=late)


@dataclass(frozen=True)
class _Errors:
    """How far bf16 is off in the first attention over a text, at its first and last quarter."""

    module: str
    count: int
    early: float
    late: float


def _errors(case: Case, name: StreamName) -> _Errors:
    call = _long(case, name)
    if sum(p.numel() for p in case.module.parameters()) > _MOST:
        raise Skip(f"the model has more than {_MOST:,} parameters: too large to copy")
    module, wide = _first_keys(converted(case.module, torch.float32), call, name)
    _, low = _first_keys(converted(case.module, torch.bfloat16), call, name)
    error = (low - wide).square().mean((0, 1, 3)) / wide.square().mean()
    quarter = len(error) // 4
    early, late = (float(each.mean().sqrt()) for each in (error[:quarter], error[-quarter:]))
    return _Errors(module, len(error), early, late)


def _long(case: Case, name: StreamName) -> Call:
    """A text of 400 tokens, or of as many as the model was trained on or has positions for.

    Raises:
        Skip: the input is no plain text of ids; `NotApplicable` where texts are too short to tell.
    """
    length = min(_LENGTH, case.patient.max_length or _LENGTH)
    while length >= _SHORTEST:
        call = _repeated(case, name, length)
        tried = lookups(case, call)
        if tried.wrong is None and tried.error is None:
            return call
        length //= 2
    raise NotApplicable(f"it reads texts of fewer than {_SHORTEST} tokens: too short to tell")


def _repeated(case: Case, name: StreamName, length: int) -> Call:
    """The first row of `small`, one of its texts over and over."""
    call = case.small.rows([0])
    text = call.text(name)
    if text.dim() != 2 or text.is_floating_point():
        raise Skip("the input is no text of ids that could be made longer")
    keep = call.keep(name)[0]
    row = text[0][keep] if bool(keep.any()) else text[0]
    ids = row.repeat(length // len(row) + 1)[None, :length]
    values = {}
    for entry in call.entries:
        if entry.stream != name:
            continue
        if entry.role == "ids":
            values[entry.key] = ids
        elif entry.role == "keep":
            values[entry.key] = torch.ones_like(ids).to(call.values[entry.key].dtype)
        elif entry.role in ("ignore", "documents"):
            values[entry.key] = torch.zeros_like(ids).to(call.values[entry.key].dtype)
        else:
            raise Skip(f"the input {entry.key} cannot be made longer by itself")
    return Call({**call.values, **values}, call.entries, call.streams)


def _first_keys(module: nn.Module, call: Call, name: StreamName) -> tuple[str, Tensor]:
    """The first attention over a text: its module, and queries and keys `[B, H, T, 2K]`.

    Raises:
        Skip: the model refuses the length or the dtype, or its attention does not show them.
    """
    module.eval()
    try:
        with torch.no_grad():
            record = run(module, call, record=True).record
    except Exception as error:  # a table of fewer positions, no kernel for bf16
        raise Skip(
            f"it does not read {call.length(name)} tokens in bf16 ({type(error).__name__})"
        ) from None
    if not any(each.query is not None for each in record.attention):
        raise Skip("the first attention does not show its queries and keys")
    for each in record.attention:
        query, key, length = each.query, each.key, call.length(name)
        if query is not None and key is not None and query.size(2) == key.size(2) == length:
            return each.module, torch.cat((query, key), -1).double()
    raise Skip("the first attention reads another length")
