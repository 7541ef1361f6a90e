"""left-padding: padding at the left does not move what stands at real positions."""

import inspect
from typing import Any

import torch

from gnomon.doctor.call import Call
from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.attention.sights import SEEN, places, sights
from gnomon.doctor.facts.decoding.generation import pads_at_left
from gnomon.doctor.finding import Outcome, Skip, failure, passed, warning
from gnomon.doctor.run import Run, difference

_NUM = 3
_FAULTY = """
    import torch
    from torch import nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.position = nn.Embedding(50, 16), nn.Embedding(64, 16)
            self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)

        def forward(self, ids, keep):
            positions = torch.arange(ids.size(1))  # padding is counted
            causal = torch.ones(ids.size(1), ids.size(1), dtype=torch.bool).triu(1)
            itself = torch.eye(len(causal), dtype=torch.bool)
            hidden = causal | ~keep[:, None].repeat_interleave(2, 0) & ~itself
            return self.layer(self.embed(ids) + self.position(positions), src_mask=hidden)

    def patient():
        torch.manual_seed(0)
        keep = torch.arange(8) >= torch.tensor([[0], [3]])
        ids = torch.randint(1, 50, (2, 8)) * keep
        return {"module": Model(), "batch": {"ids": ids, "keep": keep}, "causal": True,
                "padding_side": "left"}
"""
_MENDED = _FAULTY.replace(
    "torch.arange(ids.size(1))  # padding is counted", "(keep.cumsum(1) - 1).clamp(min=0)"
)


@check(
    code="left-padding",
    title="Padding at the left is hidden and not counted",
    fault="Padding at the left changes what real tokens give",
    cost="probe",
    cause="Positions are counted from the first column, padding included.",
    mend="Count positions over real tokens: (keep.cumsum(1) - 1).clamp(min=0).",
    reference="transformers #22707, #18478; unsloth #3699; nnsight #673; alpaca-lora #315",
    symptoms=("padding", "gibberish"),
    example=_FAULTY,
    mended=_MENDED,
)
def left_padding(case: Case) -> Outcome:
    """Prompts of several lengths are padded at the left, so that new tokens follow the text.

    The padding has to be hidden from every head, and must not shift the text's positions: a prompt
    is continued otherwise than alone. Models that are padded at the right are not at fault when
    their absolute positions shift.
    """
    call, side = case.told(case.small), _side(case)
    if side == "right" and pads_at_left(case):
        side = "left"  # whatever its batches are padded at in training
    stream = call.streams["source"]
    if not stream.hides_padding:
        raise Skip("nothing tells the model where padding is: no mask among the inputs, no pad id")
    causal = case.intent.causal is True and call.read == "source"
    if causal and side == "right" and not call.told("source"):
        raise Skip("its batches are padded at the right, and no mask is among its inputs")
    before = case.base if call is case.small else case.run(call)
    padded = call.padded("source", _NUM, "left")
    run = case.observed(padded)
    shift = _NUM if call.read == "source" else 0
    moved = _moved(run, before, shift)
    seen = [each for each in sights(run) if each.has_padding and each.key == "source"]
    bad = places(seen, "padding")
    evidence = (
        f"{_NUM} positions of padding at the left move real positions by {moved:.2g} of their "
        f"spread (rounding: {case.tolerance:.0e})"
    )
    if moved <= case.tolerance:
        return passed(evidence, moved=moved)
    if bad:
        blind = all(bool((each.padding > SEEN).all()) for each in seen)
        if blind and not call.told("source") and side != "left":
            raise Skip("no mask is among the inputs, and the model hides no padding at the left")
        return failure(
            evidence,
            where=bad,
            cause="Heads look at the padding at the left: the mask hides it only at the right, or "
            "not at all.",
            mend="Hide padded keys on either side: keep[:, None, None, :] together with the "
            "look-ahead mask.",
            moved=moved,
        )
    counted, mended, mend = _with_positions(case, padded), None, ""
    if counted is not None:
        mended = _moved(counted, before, shift)
    numbers: dict[str, Any] = {"moved": moved, "moved_with_positions": mended}
    if mended is not None and mended <= case.tolerance:
        evidence += f"; with position_ids counted over real tokens by {mended:.1e}"
        mend = "Pass position_ids = (attention_mask.cumsum(1) - 1).clamp(min=0) with each call."
    if side == "left":
        return failure(evidence, mend=mend, where=_tables(case), **numbers)
    if causal and side != "right":
        return warning(evidence, mend=mend, where=_tables(case), **numbers)
    return passed(
        f"{evidence}, as its absolute positions count the padding; no head looks at it: "
        "batches of it are padded at the right",
        **numbers,
    )


def _side(case: Case) -> str | None:
    """The side on which padding stands in use: as declared, as in the batch, else not known."""
    side = case.patient.padding_side
    if side is None and case.patient.batch is not None:
        keep = case.call.keep("source")
        if not bool(keep[:, 0].all()):
            return "left"
        if case.kind != "huggingface" and not bool(keep[:, -1].all()):
            return "right"
    return side


def _moved(padded: Run, before: Run, shift: int) -> float:
    """How far real positions are from where they were, or what is said of each text."""
    call = before.call
    if padded.main.dim() < 3:  # a classifier's
        return difference(padded.main[:, None], before.main[:, None])
    return difference(padded.tokens[:, shift:], before.tokens, call.keep(call.read))


def _with_positions(case: Case, padded: Call) -> Run | None:
    if "position_ids" not in inspect.signature(case.module.forward).parameters:
        return None
    positions = (padded.keep("source").long().cumsum(1) - 1).clamp(min=0)
    return case.run(padded.with_values(position_ids=positions))


def _tables(case: Case) -> list[str]:
    """Tables of positions: those that no id of the text indexes."""
    record = case.seen.record
    text = case.small.text("source")
    return list(
        dict.fromkeys(
            each.module
            for each in record.embeddings
            if each.ids.shape[-1:] == text.shape[1:] and not torch.equal(each.ids, text)
        )
    )
