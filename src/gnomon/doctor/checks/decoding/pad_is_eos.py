"""pad-is-eos: the end of a text is learned."""

from typing import Any

import torch
from torch import Tensor, nn

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.finding import NotApplicable, Outcome, Skip, failure, passed
from gnomon.doctor.inputs import known_pad_id, text_ends
from gnomon.doctor.restore import untouched
from gnomon.doctor.run import tensors

_FAULTY = """
    import torch
    from torch import nn
    import torch.nn.functional as F

    EOS = PAD = 2

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(50, 16)
            self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
            self.head = nn.Linear(16, 50)

        def forward(self, ids):
            mask = nn.Transformer.generate_square_subsequent_mask(ids.size(1))
            return self.head(self.layer(self.embed(ids), src_mask=mask))

    def loss(module, batch):
        ids = batch["ids"]
        logits = module(ids)[:, :-1]
        return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), ignore_index=PAD)

    class Tokenizer:
        pad_token_id, eos_token_id = PAD, EOS

    def patient():
        torch.manual_seed(0)
        ids = torch.randint(3, 50, (2, 8))
        ids[0, 7], ids[1, 5], ids[1, 6:] = EOS, EOS, PAD
        return {"module": Model(), "batch": {"ids": ids}, "loss": loss, "causal": True,
                "tokenizer": Tokenizer()}
"""
_MENDED = _FAULTY.replace("EOS = PAD = 2", "EOS, PAD = 2, 0")


@check(
    code="pad-is-eos",
    title="The end of a text is learned",
    fault="The end of a text is not learned",
    cost="probe",
    cause="Padding and end of text are one id, and the loss leaves out padding by its id.",
    mend="Give padding an id of its own, or leave out padded places by length instead of by id.",
    reference="trl #1623, #734; llm-course #33; DeepSeek-Coder #163",
    symptoms=("gibberish",),
    example=_FAULTY,
    mended=_MENDED,
)
def pad_is_eos(case: Case) -> Outcome:
    """A model that is never taught where a text ends does not stop.

    The loss of the batch is taken and its gradient on the output looked at: where the end of a text
    is to be predicted there must be some.
    """
    case.must_not_look_ahead  # noqa: B018 - skips what generates nothing
    call = case.call
    text = call.text(call.read)
    if text.dim() != 2:
        raise NotApplicable("the model reads vectors: they have no token for the end")
    eos = text_ends(case.patient)
    if not eos:
        raise Skip("the id that ends a text is not known: hand over the tokenizer")
    same = known_pad_id(case.patient) in eos
    goal, real = _goal(case)
    at_end = torch.isin(goal, torch.tensor(sorted(eos), device=goal.device)) & real
    # Of a row that is padded with its end's id, the first one is the end.
    at_end = at_end & (at_end.cumsum(1) == 1)
    if not bool(at_end.any()):
        raise Skip("no text of the batch has its end in it")
    size = _learned(case, goal.size(1))
    others = real & (torch.cumsum(at_end, 1) == 0)
    learned, usual = float(size[at_end].max()), float(size[others].max()) if others.any() else 0.0
    if usual == 0.0:
        raise Skip("the loss has no gradient at any token of the text")
    if learned > 1e-6 * usual:
        remark = ", though padding has the same id" if same else ""
        return passed(f"the end of {int(at_end.any(1).sum())} texts is learned{remark}")
    return failure(
        f"the loss has no gradient where {int(at_end.any(1).sum())} texts of the batch end "
        f"({learned:.1e} against {usual:.1e} at other tokens)",
        cause="" if same else "The labels leave out the end of the text.",
        mend="" if same else "Let the labels hold the end of each text.",
        gradient=learned,
    )


def _goal(case: Case) -> tuple[Tensor, Tensor]:
    """The token that each position has to predict, `[B, T]`, and where there is one."""
    call = case.call
    text = call.text(call.read)
    following = torch.cat((text[:, 1:], text[:, :1]), dim=1)
    real = torch.ones_like(text, dtype=torch.bool)
    real[:, -1] = False
    return following, real


def _learned(case: Case, length: int) -> Tensor:
    """`[B, T]`: the largest gradient of the loss on the output of each position."""
    outputs: list[Tensor] = []
    shape = case.run(case.call).tokens.shape

    def watch(_: nn.Module, __: Any, output: Any) -> None:
        for each in tensors(output).values():
            if each.requires_grad and each.dim() == 3 and each.shape[::2] == shape[::2]:
                each.retain_grad()
                outputs.append(each)

    hooks = [each.register_forward_hook(watch) for each in case.module.modules()]
    try:
        with untouched(case.module), torch.enable_grad():
            case.module.eval()
            case.loss(case.call).backward()  # type: ignore[no-untyped-call]
            grads = [each.grad for each in outputs if each.grad is not None]
    finally:
        for hook in hooks:
            hook.remove()
    if not grads:
        raise Skip("no module was seen to write the output that the loss is computed from")
    size = grads[-1].abs().amax(-1)
    return torch.nn.functional.pad(size, (0, max(0, length - size.size(1))))[:, :length]
