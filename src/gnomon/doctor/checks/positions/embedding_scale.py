"""embedding-scale: token vectors are as large as the positions that are added to them."""

from typing import Any

from gnomon.doctor.call import StreamName
from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.positions.embedded import Embedded, embedded, position_rows, stock_embedded
from gnomon.doctor.finding import Outcome, Skip, failure, foremost, passed, warning

_FAULTY = """
    import torch
    from torch import nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(50, 64)
            nn.init.normal_(self.embed.weight, std=64**-0.5)
            self.layer = nn.TransformerEncoderLayer(64, 2, 64, batch_first=True)
            angle = torch.arange(30)[:, None] / 10000 ** (torch.arange(32) / 32)
            self.register_buffer("table", torch.cat((angle.sin(), angle.cos()), -1))

        def forward(self, ids):
            x = self.embed(ids)  # * 64**0.5 is missing
            return self.layer(x + self.table[: ids.size(1)])

    def patient():
        torch.manual_seed(0)
        return {"module": Model(), "batch": {"ids": torch.randint(1, 50, (2, 8))}}
"""
_MENDED = _FAULTY.replace("self.embed(ids)  # * 64**0.5 is missing", "self.embed(ids) * 64**0.5")
_NEAR = 0.02
_DROWNED, _DROWNING = 0.35, 6.0  # size of tokens by size of positions


@check(
    code="embedding-scale",
    title="Token vectors and positions are of one size",
    fault="Token vectors have the wrong scale",
    cost="probe",
    cause="The factor √d_model on token vectors is missing, or applied twice.",
    mend="Multiply the looked-up vectors by √d_model once, before positions are added, where they "
    "are drawn with standard deviation d_model^-0.5; not at all where they are drawn with 1.",
    reference="Vaswani et al. 2017, section 3.4; espnet #3454, fastai #2090",
    symptoms=("stuck",),
    example=_FAULTY,
    mended=_MENDED,
)
def embedding_scale(case: Case) -> Outcome:
    """Too small, tokens drown in the positions; too large, the order of words is lost.

    Measured is the factor between the table's rows and what enters the first layer, by other
    tokens in the same places. It is compared with what the model's own class does, where that is a
    stock one; else the sizes of what is added decide.
    """
    said: list[str] = []
    skipped: list[Skip] = []
    for stream in case.small.streams:
        try:
            seen = embedded(case, stream)
            outcome = _against_stock(case, stream, seen) or _by_size(case, stream, seen)
        except Skip as reason:
            skipped.append(reason)
            continue
        if outcome.verdict != "pass":
            return outcome
        said.append(outcome.evidence)
    if not said:
        raise foremost(skipped)
    return passed("; ".join(said))


def _against_stock(case: Case, stream: StreamName, seen: Embedded) -> Outcome | None:
    """By what the model's own class does; None where that cannot be seen."""
    try:
        design = stock_embedded(case, stream)
    except Skip:
        return None
    evidence = (
        f"the {stream}'s token vectors are multiplied by {seen.factor:.4g} "
        f"(√{seen.width} = {seen.width**0.5:.4g}); its class has {design.factor:.4g}"
    )
    if abs(seen.factor / design.factor - 1) <= _NEAR:
        return passed(evidence, factor=seen.factor)
    return failure(
        evidence, where=seen.lookup.module, cause=_cause(seen, design.factor), factor=seen.factor
    )


def _by_size(case: Case, stream: StreamName, seen: Embedded) -> Outcome:
    if not seen.has_positions():
        raise Skip(
            f"token vectors are multiplied by {seen.factor:.4g}, and nothing is added to them that "
            "would tell what is right"
        )
    keep = case.small.keep(stream)
    tokens = float((seen.factor * seen.tokens)[keep].square().mean().sqrt())
    places = float(seen.rest[seen.row].square().mean().sqrt())
    ratio = tokens / places
    table = float(seen.lookup.table.detach().float().std())
    evidence = (
        f"the {stream}'s token vectors (table: standard deviation {table:.2g}) are multiplied by "
        f"{seen.factor:.4g} (√{seen.width} = {seen.width**0.5:.4g}) and are then {ratio:.2g} times "
        "as large as what positions add"
    )
    rows = position_rows(case.module, seen)
    fixed = rows is None or not rows.learned
    numbers: dict[str, Any] = {"factor": seen.factor, "ratio": ratio}
    root = seen.width**0.5
    if seen.factor > 1.5 * root and seen.width >= 4:
        judge = failure if ratio > _DROWNING else warning
        return judge(evidence, where=seen.lookup.module, cause=_cause(seen, root), **numbers)
    if fixed and ratio < _DROWNED and abs(seen.factor - 1) <= _NEAR:
        return warning(evidence, where=seen.lookup.module, cause=_cause(seen, root), **numbers)
    if fixed and ratio > root and ratio > 2 * _DROWNING and abs(seen.factor / root - 1) <= _NEAR:
        return warning(
            evidence,
            where=seen.lookup.module,
            cause="The table is drawn with deviation 1 and multiplied by √d_model besides: "
            "positions drown.",
            mend="Draw the table with standard deviation d_model^-0.5, or leave the factor out.",
            **numbers,
        )
    return passed(evidence, **numbers)


def _cause(seen: Embedded, right: float) -> str:
    if abs(seen.factor / right / seen.width**0.5 - 1) <= 0.1:
        return "√d_model is applied twice." if right > 1 + _NEAR else "√d_model is applied here."
    if abs(seen.factor - 1) <= _NEAR:
        return "The factor √d_model is missing."
    return f"The factor is {seen.factor:.4g} in place of {right:.4g}."
