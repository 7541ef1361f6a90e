"""positions-shifted: the first position is the first."""

from dataclasses import dataclass
from typing import Any

from torch import nn

from gnomon.doctor.call import StreamName
from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.beside.stock import stock
from gnomon.doctor.facts.positions.embedded import (
    Embedded,
    embedded,
    position_rows,
    sinusoid_offset,
    stock_embedded,
)
from gnomon.doctor.finding import NotApplicable, Outcome, Skip, failure, foremost, passed, warning
from gnomon.doctor.inputs import known_pad_id

_FAULTY = """
    import torch
    from torch import nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.places = nn.Embedding(50, 16), nn.Embedding(9, 16)
            self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)

        def forward(self, ids):
            places = torch.arange(1, ids.size(1) + 1)  # row 0 is never read
            return self.layer(self.embed(ids) + self.places(places))

    def patient():
        torch.manual_seed(0)
        ids = torch.randint(1, 50, (2, 8))
        return {"module": Model(), "batch": {"ids": ids}, "max_length": 9}
"""
_MENDED = _FAULTY.replace(
    "torch.arange(1, ids.size(1) + 1)  # row 0 is never read", "torch.arange(ids.size(1))"
)


@dataclass(frozen=True)
class Start:
    """Which position a text begins at.

    Attributes:
        table: the parameter or buffer; "" where positions are computed.
        rows: of the table; 0 where there is none.
    """

    offset: float
    table: str
    rows: int
    learned: bool


@check(
    code="positions-shifted",
    title="Positions begin where they should",
    fault="Positions begin at the wrong place",
    cost="probe",
    cause="Positions are counted from another number than the table (or the weights) expects.",
    mend="Count positions from 0, or from the number of reserved rows where the table has some "
    "(RoBERTa: padding_idx + 1), in training and in use alike.",
    reference="Liu et al. 2019 (RoBERTa), whose positions begin at padding_idx + 1",
    symptoms=("gibberish", "long-input", "deployed"),
    example=_FAULTY,
    mended=_MENDED,
)
def positions_shifted(case: Case) -> Outcome:
    """A shift reads rows that were trained for other places, and one past the end.

    The rows that are added at each place are looked up in the model's tables; sinusoids tell their
    position by their angle. It is compared with what the model's own class does, where that is a
    stock one, else with row 0 or the rows that the table reserves for padding.
    """
    said: list[str] = []
    skipped: list[Skip] = []
    for stream in case.small.streams:
        try:
            outcome = _of_text(case, stream)
        except Skip as reason:
            skipped.append(reason)
            continue
        if outcome.verdict != "pass":
            return outcome
        said.append(outcome.evidence)
    if not said:
        raise foremost(skipped)
    return passed("; ".join(said))


def _of_text(case: Case, stream: StreamName) -> Outcome:
    seen = embedded(case, stream)
    start = _start(case.module, seen)
    source = start.table or "sinusoids"
    evidence = f"the {stream} begins at position {start.offset:.3g} of {source}"
    if start.rows:
        evidence += f" ({start.rows} rows)"
    designed = _designed(case, stream)
    numbers: dict[str, Any] = {"offset": start.offset, "designed": designed}
    if designed is not None:
        evidence += f"; its class begins at {designed:.3g}"
        if abs(start.offset - designed) < 0.1:
            return passed(evidence, **numbers)
        return failure(
            evidence, where=start.table, cause=_cause(start.offset - designed), **numbers
        )
    if abs(start.offset) < 0.1 or _reserved(case, start):
        return passed(evidence, **numbers)
    longest = case.patient.max_length
    if start.learned and longest is not None and longest + start.offset > start.rows:
        return failure(
            f"{evidence}: a text of {longest} tokens reads row {longest + start.offset - 1:.0f}",
            where=start.table,
            cause=_cause(start.offset),
            **numbers,
        )
    return warning(evidence, where=start.table, cause=_cause(start.offset), **numbers)


def _start(module: nn.Module, seen: Embedded) -> Start:
    if not seen.has_positions():
        raise NotApplicable("no positions are added to the token vectors")
    rows = position_rows(module, seen)
    if rows is not None:
        return Start(rows.offset, rows.name, rows.table.size(0), rows.learned)
    angle = sinusoid_offset(seen.rest[seen.row])
    if angle is None:
        raise Skip("the added positions stand in no table of the model and are no sinusoids")
    return Start(angle, "", 0, False)


def _designed(case: Case, stream: StreamName) -> float | None:
    try:
        return _start(stock(case), stock_embedded(case, stream)).offset
    except Skip:
        return None


def _reserved(case: Case, start: Start) -> bool:
    """The rows before the first position stand for padding, as in fairseq and RoBERTa."""
    for name, module in case.module.named_modules():
        if isinstance(module, nn.Embedding) and f"{name}.weight" == start.table:
            return module.padding_idx is not None and start.offset == module.padding_idx + 1
    pad_id = known_pad_id(case.patient)
    return not start.learned and pad_id is not None and abs(start.offset - pad_id - 1) < 0.1


def _cause(shift: float) -> str:
    return f"Positions are {abs(shift):.3g} too {'high' if shift > 0 else 'low'}."
