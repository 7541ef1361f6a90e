"""mask-polarity: True does not mean the opposite of what the model takes it for."""

import torch
from torch import Tensor

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.attention.sights import SEEN, Sight
from gnomon.doctor.finding import Outcome, Skip, failure, passed

_FAULTY = """
    import torch
    from torch import nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(50, 16)
            self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)

        def forward(self, ids):
            real = ids != 0
            return self.layer(self.embed(ids), src_key_padding_mask=real)  # True hides here

    def patient():
        torch.manual_seed(0)
        ids = torch.randint(1, 50, (2, 8))
        ids[:, 6:] = 0
        return {"module": Model(), "batch": {"ids": ids}, "pad_id": 0}
"""
_MENDED = _FAULTY.replace("src_key_padding_mask=real)  # True hides here",
                          "src_key_padding_mask=~real)")  # fmt: skip


@check(
    code="mask-polarity",
    title="Masks hide what they should, not the opposite",
    fault="A mask hides what it should show",
    cost="probe",
    cause="True (or 1) means 'may attend' on one side and 'hidden' on the other.",
    mend="Negate the mask where it changes hands: scaled_dot_product_attention takes True = may "
    "attend, nn.MultiheadAttention and nn.Transformer take True = hidden.",
    reference="pytorch #170415, #170400; LLMs-from-scratch #1061",
    symptoms=("gibberish", "padding", "nan", "stuck"),
    example=_FAULTY,
    mended=_MENDED,
)
def mask_polarity(case: Case) -> Outcome:
    """A mask taken the wrong way round hides the text and shows the padding, or only the future.

    Shapes fit and nothing is raised. It is seen in the weights: all of a real query's weight lies
    on padding, or all of it on later tokens.
    """
    with_padding = [each for each in case.sights if each.has_padding]
    own = [each for each in case.sights if each.is_self and each.weights.size(-1) > 2]
    if not with_padding and not own:
        raise Skip("no attention was seen that has something to hide")
    padding = [each for each in with_padding if bool(_only_padding(each).any())]
    future = [each for each in own if _takes_the_future(each)]
    if not padding and not future:
        return passed(f"none of {len(case.sights)} attention calls shows only what it should hide")
    found, what = (padding, "padding") if padding else (future, "later tokens")
    return failure(
        f"in {len(found)} of {len(with_padding if padding else own)} attention calls real tokens "
        f"see nothing but {what}",
        where=list(dict.fromkeys(each.module for each in found)),
        cause=f"The {'padding' if padding else 'look-ahead'} mask is taken the wrong way round.",
        calls=len(found),
    )


def _only_padding(sight: Sight) -> Tensor:
    """`[H]`: whether its real queries see padding alone."""
    weights = sight.weights.nan_to_num(0.0)
    mixed = (~sight.keep & sight.keep.any(1, keepdim=True)).any(1)
    on_text = (weights * sight.keep[:, None, None, :]).sum(-1)
    on_padding = (weights * ~sight.keep[:, None, None, :]).sum(-1)
    counted = mixed[:, None, None] & sight.real[:, None, :]
    text = on_text.masked_fill(~counted, 0.0).amax((0, 2))
    padding = on_padding.masked_fill(~counted, 0.0).amax((0, 2))
    return (text <= SEEN) & (padding > 0.5)


def _takes_the_future(sight: Sight) -> bool:
    """Whether heads give exactly nothing to earlier tokens, as a mask makes it, and see later ones.

    A head may have learned to look at the next token: what it leaves to the others is small, not 0.
    In fp16 that, too, is 0: there it takes all heads.
    """
    before, after = _before_and_after(sight)
    hidden = (before == 0) & (after > 0.5)
    return bool(hidden.all() if sight.call.dtype == torch.float16 else hidden.any())


def _before_and_after(sight: Sight) -> tuple[Tensor, Tensor]:
    """`[H]`: the most that a query but the last gives to an earlier token, and to later ones."""
    weights = sight.weights.nan_to_num(0.0)
    real = sight.real & sight.keep
    T = weights.size(-1)
    index = torch.arange(T, device=weights.device)
    pairs = real[:, None, :, None] & real[:, None, None, :]
    # The last real token of a row has nothing later to see, and may see whatever is left.
    last = real.int().cumsum(1) == real.sum(1, keepdim=True)
    pairs = pairs & ~last[:, None, :, None]
    earlier = (index[:, None] > index[None, :]) & pairs
    later = (index[:, None] < index[None, :]) & pairs
    before = weights.masked_fill(~earlier, 0.0).amax((0, 2, 3))
    after = weights.masked_fill(~later, 0.0).sum(-1).amax((0, 2))
    return before, after
