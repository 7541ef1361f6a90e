"""positions-missing: the order of the words is seen."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from gnomon.doctor.call import StreamName
from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.beside.stock import on_stock
from gnomon.doctor.facts.positions.constant import (
    Constant,
    constant_run,
    constants,
    text_of_one_token,
)
from gnomon.doctor.finding import Outcome, Skip, failure, foremost, passed, warning

_FAULTY = """
    import torch
    from torch import nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.places = nn.Embedding(50, 16), nn.Embedding(30, 16)
            self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)

        def forward(self, ids):
            return self.layer(self.embed(ids))  # self.places is never added

    def patient():
        torch.manual_seed(0)
        return {"module": Model(), "batch": {"ids": torch.randint(1, 50, (2, 8))}}
"""
_MENDED = _FAULTY.replace(
    "self.layer(self.embed(ids))  # self.places is never added",
    "self.layer(self.embed(ids) + self.places(torch.arange(ids.size(1))))",
)
_MOVES = 1e-4  # relative


@check(
    code="positions-missing",
    title="The order of the words is seen",
    fault="The order of the words is not seen",
    cost="probe",
    cause="No positions are added to the token vectors, and none act within attention.",
    mend="Add positions to the token vectors, or rotate queries and keys (RoPE), or add a relative "
    "bias to the scores, in every stack.",
    reference="Vaswani et al. 2017, section 3.5; Haviv et al. 2022 for decoders without positions",
    symptoms=("gibberish", "stuck"),
    example=_FAULTY,
    mended=_MENDED,
)
def positions_missing(case: Case) -> Outcome:
    """Attention alone sees a bag of words.

    The model reads one token over and over: then only positions can make one place differ from
    another, in what is attended to or in the scores. A causal decoder can learn the order from its
    mask alone, so there it is a warning.
    """
    said: list[str] = []
    skipped: list[Skip] = []
    for stream in case.small.streams:
        try:
            found = constants(constant_run(case, stream), stream)
        except Skip as reason:
            skipped.append(reason)
            continue
        if not found:
            skipped.append(Skip(f"no self-attention on the {stream} was seen"))
            continue
        outcome = _of_stack(case, stream, found)
        if outcome.verdict != "pass":
            return outcome
        said.append(outcome.evidence)
    if not said:
        raise foremost(skipped)
    return passed("; ".join(said))


def _of_stack(case: Case, stream: StreamName, found: list[Constant]) -> Outcome:
    added = [each for each in found if each.values > _MOVES]
    if added:
        return passed(
            f"on a {stream} of one token values move by {added[0].values:.2g} of their size: "
            "positions are added"
        )
    unknown = [each for each in found if each.scores is None]
    blind = [each for each in found if each.scores is not None and each.scores <= _MOVES]
    if not blind:
        if unknown:
            raise Skip(f"the scores on the {stream} are not seen")
        return passed(
            f"on a {stream} of one token scores move by "
            f"{min(each.scores or 0.0 for each in found):.2g} of their size or more: positions act "
            "within attention"
        )
    if _by_design(case, stream, {each.attention.module for each in blind}):
        return passed(
            f"{len(blind)} of {len(found)} self-attention calls on the {stream} see no positions, "
            "as its class has it"
        )
    where = [each.attention.module for each in blind]
    if len(blind) < len(found):
        return warning(
            f"on a {stream} of one token the scores of {len(blind)} of {len(found)} self-attention "
            "calls do not move: no positions act there, while they do in the others",
            where=where,
            cause="Positions are left out in some layers.",
        )
    out = constant_run(case, stream)
    evidence = (
        f"on a {stream} of one token, {out.call.length(stream)} long, neither values nor scores "
        f"of any of {len(found)} self-attention calls move"
    )
    if _start_at_zero(case, stream):
        return passed(f"{evidence} yet: learned positions start at zero")
    causal = stream == case.small.read and case.intent.causal
    judge = warning if causal else failure
    return judge(
        evidence,
        where=where,
        cause="No positions reach attention"
        + (": it learns the order from the look-ahead mask at best." if causal else "."),
    )


def _by_design(case: Case, stream: StreamName, blind: set[str]) -> bool:
    """Whether the same modules see no positions in the model's own class."""
    try:
        seen = constants(on_stock(case, text_of_one_token(case, stream)), stream)
    except Skip:
        return False
    same = {
        each.attention.module
        for each in seen
        if each.values <= _MOVES and each.scores is not None and each.scores <= _MOVES
    }
    return blind <= same


def _start_at_zero(case: Case, stream: StreamName) -> bool:
    """Whether parameters that are all zero, once filled, make places differ."""
    with _filled(case.module) as filled:
        if not filled:
            return False
        again = constants(case.observed(text_of_one_token(case, stream)), stream)
    return any(each.values > _MOVES or (each.scores or 0.0) > _MOVES for each in again)


@contextmanager
def _filled(module: nn.Module) -> Iterator[bool]:
    zero = [p for p in module.parameters() if p.dim() >= 2 and not bool(p.detach().any())]
    generator = torch.Generator().manual_seed(0)
    try:
        with torch.no_grad():
            for parameter in zero:
                parameter.copy_(torch.randn(parameter.shape, generator=generator))
        yield bool(zero)
    finally:
        with torch.no_grad():
            for parameter in zero:
                parameter.zero_()
