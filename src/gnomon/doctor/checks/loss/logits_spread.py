"""logits-spread: a fresh model's logits are small."""

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.finding import NotApplicable, Outcome, Skip, passed, warning

_FAULTY = """
    import torch
    from torch import nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(50, 64)
            self.layer = nn.TransformerEncoderLayer(64, 2, 64, dropout=0.0, batch_first=True)
            self.head = nn.Linear(64, 50, bias=False)
            nn.init.normal_(self.head.weight)  # a standard deviation of 1

        def forward(self, ids):
            return self.head(self.layer(self.embed(ids)))

    def patient():
        torch.manual_seed(0)
        return {"module": Model(), "batch": {"ids": torch.randint(1, 50, (4, 8))}}
"""
_MENDED = _FAULTY.replace(
    "(self.head.weight)  # a standard deviation of 1", "(self.head.weight, std=0.02)"
)
_WIDE = 2.5


@check(
    code="logits-spread",
    title="Fresh logits are small",
    fault="Fresh logits are large",
    cost="probe",
    cause="The output projection is drawn too large.",
    mend="Draw it by Xavier or N(0, 0.02); scale a tied embedding at the input, not at the output.",
    reference="Press & Wolf 2017; Vaswani et al. 2017, section 3.4; attention-is-all-you-need-"
    "pytorch #168",
    symptoms=("stuck",),
    example=_FAULTY,
    mended=_MENDED,
)
def logits_spread(case: Case) -> Outcome:
    """Large logits before training are certainty about nothing.

    Softmax is saturated, the first gradients are spent on taking the certainty back. The spread is
    the standard deviation over the tokens of the vocabulary at each position.
    """
    if case.is_fresh is False:
        raise NotApplicable("the model is trained: its logits are what it learned")
    call = case.small
    logits = case.base.tokens
    stream = call.streams[call.read]
    if not stream.vocab_size or logits.size(-1) < stream.vocab_size:
        raise NotApplicable("the model gives no logits of tokens")
    real = logits[call.keep(call.read).to(logits.device)].float()
    spread = float(real.std(-1, correction=0).mean())
    scale = f"the logits' standard deviation over {logits.size(-1)} tokens is {spread:.3g}"
    if case.is_fresh is None and spread > _WIDE:
        raise Skip(f"{scale}, and nothing tells whether the model is trained")
    cause = ""
    tables = case.seen.record.embeddings
    size = float(tables[0].table.detach().float().std()) if tables else 0.0
    if size > 0.5 and _is_tied(case, logits.size(-1)):
        cause = (
            f"The embedding, drawn with a standard deviation of {size:.2g}, is the output "
            "projection as well."
        )
    if spread > _WIDE:
        return warning(f"{scale}; about 1 or less is usual", cause=cause, spread=spread)
    return passed(scale, spread=spread)


def _is_tied(case: Case, vocab_size: int) -> bool:
    """Whether a table of that many rows has more than one name."""
    names: dict[int, int] = {}
    for _, parameter in case.module.named_parameters(remove_duplicate=False):
        if parameter.dim() == 2 and parameter.size(0) == vocab_size:
            names[id(parameter)] = names.get(id(parameter), 0) + 1
    return any(count > 1 for count in names.values())
