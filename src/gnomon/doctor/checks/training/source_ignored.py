"""source-ignored: what the decoder says depends on the source."""

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.finding import NotApplicable, Outcome, failure, passed
from gnomon.doctor.run import difference

_FAULTY = """
    import torch
    from torch import nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(50, 16)
            self.encoder = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
            self.decoder = nn.TransformerDecoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
            self.head = nn.Linear(16, 50)

        def forward(self, src, tgt):
            memory = self.encoder(self.embed(src))
            mask = nn.Transformer.generate_square_subsequent_mask(tgt.size(1))
            memory = torch.zeros_like(memory)  # a slip: the encoder's output is thrown away
            return self.head(self.decoder(self.embed(tgt), memory, tgt_mask=mask))

    def patient():
        torch.manual_seed(0)
        source, target = torch.randint(1, 50, (2, 9)), torch.randint(1, 50, (2, 8))
        return {"module": Model(), "batch": {"src": source, "tgt": target}}
"""
_MENDED = _FAULTY.replace(
    "memory = torch.zeros_like(memory)  # a slip: the encoder's output is thrown away\n", "\n"
)


@check(
    code="source-ignored",
    title="The output depends on the source",
    fault="The output hardly depends on the source",
    cost="probe",
    cause="The encoder's output does not reach the decoder: it is cut off, or cross-attention "
    "masks all of it.",
    mend="Pass the encoder's output as keys and values of every cross-attention, with a mask that "
    "is True at real source tokens.",
    reference="OpenNMT-py #1017; Raunak et al. 2021 on hallucinations",
    symptoms=("gibberish", "stuck"),
    example=_FAULTY,
    mended=_MENDED,
)
def source_ignored(case: Case) -> Outcome:
    """A decoder that does not see the source is a language model that invents fluent text.

    All tokens of the source are replaced by others; the decoder's output must move. That a trained
    model makes no use of a source that does reach it is seen by the monitors (shuffled sources).
    """
    call = case.small
    if "target" not in call.streams:
        raise NotApplicable("the model reads one text")
    other = call.perturbed("source", call.keep("source").cpu())
    keep = call.keep("target")
    moved = difference(case.run(other).tokens, case.base.tokens, keep)
    evidence = f"another source moves the output by {moved:.1e} of its spread"
    if moved > case.tolerance:
        return passed(evidence, moved=moved)
    crosses = [each for each in case.record.attention if each.is_cross]
    hidden = [
        each.module for each in crosses if each.keep is not None and not bool(each.keep.any())
    ]
    cause = ""
    if not crosses:
        cause = "No attention call reads the encoder's output: there is no cross-attention."
    elif hidden:
        cause = "Cross-attention's mask hides every source token."
    return failure(
        evidence + f" (rounding: {case.tolerance:.0e})",
        where=hidden or [each.module for each in crosses],
        cause=cause,
        moved=moved,
    )
