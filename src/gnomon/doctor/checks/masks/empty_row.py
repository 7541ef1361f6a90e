"""empty-row: a query with no key to attend to gives zeros, never NaN nor an average of padding."""

import torch

from gnomon.doctor.call import Call, StreamName
from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.attention.sights import Sight, sights
from gnomon.doctor.facts.beside.trace import first_not_finite
from gnomon.doctor.finding import Outcome, Skip, failure, passed, warning
from gnomon.doctor.restore import untouched
from gnomon.doctor.run import Run, difference, run

_FAULTY = """
    import torch
    from torch import nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(50, 16)
            self.qkv = nn.Linear(16, 48)

        def forward(self, ids, keep):
            q, k, v = self.qkv(self.embed(ids))[:, None].chunk(3, dim=-1)
            scores = (q @ k.transpose(-1, -2) / 4).masked_fill(~keep[:, None, None, :], -torch.inf)
            weights = scores.softmax(-1)
            return (weights @ v)[:, 0]

    def patient():
        torch.manual_seed(0)
        keep = torch.arange(8) < torch.tensor([[8], [5]])
        ids = torch.randint(1, 50, (2, 8)) * keep
        return {"module": Model(), "batch": {"ids": ids, "keep": keep}}
"""
_MENDED = _FAULTY.replace(
    "masked_fill(~keep[:, None, None, :], -torch.inf)\n            weights = scores.softmax(-1)",
    "masked_fill(~keep[:, None, None, :], -1e30)\n"
    "            weights = scores.softmax(-1).masked_fill(~keep[:, None, None, :], 0.0)",
)


@check(
    code="empty-row",
    title="A row with nothing to attend to gives zeros",
    fault="A row with nothing to attend to does not give zeros",
    cost="probe",
    cause="Softmax over a row that is all -inf is NaN.",
    mend="Fill with a large finite value and set the weights of hidden keys to 0 after softmax, or "
    "use scaled_dot_product_attention, which does.",
    reference="pytorch #103749, #109517, #110213, #160064; transformers #38690",
    symptoms=("nan", "padding"),
    example=_FAULTY,
    mended=_MENDED,
)
def empty_row(case: Case) -> Outcome:
    """One empty text in a batch, or one query that sees nothing, can turn all gradients to NaN.

    Left out of the loss its NaN still reaches the weights, as 0 · NaN. With a finite mask constant
    the softmax is uniform instead, and the row an average over padding. Seen in the batch as it is,
    and with a first row that is all padding.
    """
    lost = [each for each in case.sights_if_any if _averages_hidden(each)]
    if lost:
        return failure(
            f"in {len(lost)} attention calls a real query has no key it may attend to, and "
            "averages over hidden ones",
            where=list(dict.fromkeys(each.module for each in lost)),
            cause="The masks together hide every key, and a finite constant makes softmax uniform.",
            mend="Let each position see itself; give zeros where nothing is left.",
            calls=len(lost),
        )
    names = [name for name, stream in case.small.streams.items() if stream.hides_padding]
    if not names:
        raise Skip("nothing tells the model where padding is: no row can be emptied")
    garbage: list[Sight] = []
    for name in names:
        call = _emptied(case.told(case.small), name)
        if call is None:
            continue
        seen = case.observed(call)
        bad = _not_finite(case, seen)
        if bad:
            return bad
        average = [
            each
            for each in sights(seen)
            if each.key == name and _first_row_averages(each) and _counts(case, each)
        ]
        garbage += _confirmed(case, seen, average, name)
    if garbage and case.kind != "huggingface":
        return warning(
            f"a text that is all padding: in {len(garbage)} attention calls its row is an average "
            "over padding, finite and meaningless",
            where=list(dict.fromkeys(each.module for each in garbage)),
            cause="A finite mask constant makes softmax uniform where it hides every key.",
            calls=len(garbage),
        )
    remark = "; it averages over padding there, as its library does" if garbage else ""
    return passed(f"a row of padding alone leaves outputs and gradients finite{remark}")


def _emptied(call: Call, name: StreamName) -> Call | None:
    where = torch.zeros(call.text(name).shape[:2], dtype=torch.bool)
    where[0] = True
    emptied = call.hidden(name, where)
    return None if bool(emptied.keep(name)[0].any()) else emptied


def _not_finite(case: Case, seen: Run) -> Outcome | None:
    for name, each in seen.tensors.items():
        if name in case.base.tensors and not bool(case.base.tensors[name].isfinite().all()):
            continue
        if not bool(each.isfinite().all()) and name not in ("loss",):
            count = int((~each.isfinite()).sum())
            return failure(
                f"with one text that is all padding, {count} of {each.numel()} values of {name} "
                "are not finite",
                where=first_not_finite(seen) or (),
                values=count,
            )
    with untouched(case.module), torch.enable_grad():
        case.module.eval()
        output = run(case.module, seen.call).main
        if not output.requires_grad:
            return None
        output[1:].float().square().mean().backward()  # type: ignore[no-untyped-call]
        bad = [
            name
            for name, each in case.module.named_parameters()
            if each.grad is not None and not bool(each.grad.isfinite().all())
        ]
    if not bad:
        return None
    return failure(
        f"with one text that is all padding and left out of the loss, the gradients of {len(bad)} "
        "parameters are not finite",
        where=bad,
        cause="Softmax over a row that is all -inf is NaN; replacing it afterwards leaves its "
        "gradient NaN.",
        parameters=len(bad),
    )


def _averages_hidden(sight: Sight) -> bool:
    """Whether a real query that may see nothing sees something."""
    keep = sight.call.keep
    if keep is None:
        return False
    empty = ~keep.expand(sight.weights.shape).any(-1)
    empty = empty & (sight.real & sight.keep.any(1, keepdim=True))[:, None, :]
    return bool((sight.weights.nan_to_num(0.0).sum(-1)[empty] > 0.5).any())


def _first_row_averages(sight: Sight) -> bool:
    return bool((sight.weights[0].nan_to_num(0.0).sum(-1) > 0.5).any())


def _confirmed(case: Case, seen: Run, average: list[Sight], name: StreamName) -> list[Sight]:
    """Those whose module lets the average through: other padding changes what it gives."""
    if not average:
        return []
    call = seen.call
    if call.told(name):
        where = torch.zeros(call.text(name).shape[:2], dtype=torch.bool)
        where[0] = True
        other = case.observed(call.perturbed(name, where))
    else:
        other = case.observed(call.padded(name, 5, "right"))
    found = []
    for each in average:
        if not each.module:
            continue
        calls = zip(
            seen.record.modules[each.module], other.record.modules[each.module], strict=False
        )
        moved = [
            difference(a[:1], b[:1, : a.size(1)])
            for one, two in calls
            for a, b in zip(one.tensors[:1], two.tensors[:1], strict=False)
            if a.dim() == 3 and a.size(0) == call.num_rows() == b.size(0)
        ]
        if max(moved, default=0.0) > case.tolerance:
            found.append(each)
    return found


def _counts(case: Case, sight: Sight) -> bool:
    """Not where the text's own look-ahead mask hides less than all of it."""
    return not (sight.is_self and case.intent.causal is True and sight.query == case.small.read)
