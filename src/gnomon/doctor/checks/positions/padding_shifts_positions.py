"""padding-shifts-positions: padding does not move the positions of real tokens."""

from gnomon.doctor.call import StreamName
from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.positions.embedded import embedded
from gnomon.doctor.finding import Outcome, Skip, failure, foremost, passed
from gnomon.doctor.squares import Side

_FAULTY = """
    import torch
    from torch import nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.places = nn.Embedding(50, 16, padding_idx=0), nn.Embedding(40, 16)
            self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)

        def forward(self, ids):
            places = torch.arange(ids.size(1)).expand(ids.shape)  # padding is counted
            return self.layer(self.embed(ids) + self.places(places), src_key_padding_mask=ids == 0)

    def patient():
        torch.manual_seed(0)
        ids = torch.randint(1, 50, (2, 8))
        ids[1, :3] = 0  # at the left
        return {"module": Model(), "batch": {"ids": ids}, "padding_side": "left"}
"""
_MENDED = _FAULTY.replace(
    "torch.arange(ids.size(1)).expand(ids.shape)  # padding is counted",
    "((ids != 0).cumsum(1) - 1).clamp_min(0)",
)


@check(
    code="padding-shifts-positions",
    title="Padding does not move the positions of real tokens",
    fault="Padding moves the positions of real tokens",
    cost="probe",
    cause="Positions are counted along the batch, padding included.",
    mend="Count real tokens: position_ids = (mask.cumsum(-1) - 1).clamp_min(0); or pad at the "
    "other side.",
    reference="transformers #22707, #18478; nnsight #673",
    symptoms=("padding", "gibberish"),
    example=_FAULTY,
    mended=_MENDED,
)
def padding_shifts_positions(case: Case) -> Outcome:
    """The same text gets other positions, and another result, the longer its neighbours are.

    Five positions of padding are added on each side on which batches are padded here, and what
    enters the first layer is compared at the real tokens. Rotary positions and relative biases see
    distances alone and are not moved.
    """
    said: list[str] = []
    skipped: list[Skip] = []
    for stream in case.small.streams:
        info = case.small.streams[stream]
        if not info.hides_padding:
            skipped.append(Skip("nothing tells the model where padding is"))
            continue
        for side in _sides(case, stream):
            try:
                moved, size = _moved(case, stream, side)
            except Skip as reason:
                skipped.append(reason)
                continue
            evidence = (
                f"5 positions of padding at the {side} of the {stream} move what enters the first "
                f"layer at real tokens by {moved:.2g} (its largest value is {size:.2g})"
            )
            if moved > 10 * case.tolerance * size:
                return failure(evidence, where=embedded(case, stream).site.module, moved=moved)
            said.append(evidence)
    if not said:
        raise foremost(skipped)
    return passed("; ".join(said))


def _sides(case: Case, stream: StreamName) -> list[Side]:
    """Where padding stands in use: as declared, as in the batch; the right in any case."""
    sides: list[Side] = ["right"]
    tokenizer_side = getattr(case.patient.tokenizer, "padding_side", None)
    keep = case.call.keep(stream)
    at_left = bool((~keep[:, 0] & keep.any(1)).any())
    if at_left or "left" in (case.patient.padding_side, tokenizer_side):
        sides.append("left")
    return sides


def _moved(case: Case, stream: StreamName, side: Side) -> tuple[float, float]:
    seen = embedded(case, stream)
    call = case.small.padded(stream, 5, side)
    try:
        run = case.observed(call)
    except Exception as error:
        raise Skip(f"the model does not run on more padding: {type(error).__name__}") from None
    tensor = seen.site.tensor(run.record).float()
    before = seen.factor * seen.tokens + seen.rest
    if tensor.size(0) == call.length(stream) and tensor.size(0) != before.size(0):
        tensor = tensor.transpose(0, 1)
    if tensor.size(1) != before.size(1) + 5:
        raise Skip("the sum of the embeddings is not seen in the padded run")
    tensor = tensor[:, 5:] if side == "left" else tensor[:, :-5]
    keep = case.small.keep(stream)
    off = (tensor - before)[keep].abs().max()
    return float(off), float(before[keep].abs().max())
