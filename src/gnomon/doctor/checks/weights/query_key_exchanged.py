"""query-key-exchanged: queries and keys come from their own projections."""

from typing import Any

import torch
from torch import Tensor, nn

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.training.optimizing import listed
from gnomon.doctor.finding import NotApplicable, Outcome, Skip, passed, warning
from gnomon.probe import AttentionCall, Record

_FAULTY = """
    import torch
    from torch import nn

    def patient():
        torch.manual_seed(0)
        module = nn.TransformerEncoderLayer(32, 2, 64, batch_first=True)
        with torch.no_grad():
            module.norm1.weight += 0.1 * torch.randn(32)  # it was trained
            queries, keys, values = module.self_attn.in_proj_bias.chunk(3)
            keys.normal_(0.0, 0.1)  # the file holds k, q, v in this order
        return {"module": module, "batch": {"src": torch.randn(2, 6, 32)}}
"""
_MENDED = _FAULTY.replace(
    "keys.normal_(0.0, 0.1)  # the file holds k, q, v in this order", "queries.normal_(0.0, 0.1)"
)
_TIMES = 10.0  # the keys' bias over the queries'
_SOMETHING = 1e-4  # a bias that was trained at all
_SAME = 1e-6  # squared sine of the angle between what a projection gave and what attention got


@check(
    code="query-key-exchanged",
    title="Queries and keys come from their own projections",
    fault="Queries and keys seem to have exchanged projections",
    cost="probe",
    cause="The two were exchanged when weights were converted or loaded (k, q, v instead of "
    "q, k, v).",
    mend="Exchange the two projections' weights and biases.",
    reference="Vaswani et al. 2017, equation 1: a constant on a query's scores is lost in softmax",
    symptoms=("gibberish", "deployed"),
    example=_FAULTY,
    mended=_MENDED,
)
def query_key_exchanged(case: Case) -> Outcome:
    """Exchanged, the scores are those of the transposed table: what should be asked is answered.

    Shapes are the same, so nothing breaks. But a bias of the keys adds one number to all scores of
    a query, which softmax takes out again: it never gets a gradient and stays at zero, while that
    of the queries is trained. A model in which it is the other way round has them exchanged. (Not
    to be told of rotary models, whose keys are turned, nor without biases.)
    """
    found: dict[str, tuple[float, float]] = {}
    for call in case.record.attention:
        of_queries, of_keys = _bias(case, call, call.query), _bias(case, call, call.key)
        if of_queries is not None and of_keys is not None:
            found[call.module] = _size(of_queries), _size(of_keys)
    if not found:
        raise Skip("no projection with a bias was seen that gives queries and keys as they are")
    if not any(max(sizes) > _SOMETHING for sizes in found.values()):
        raise NotApplicable("the biases of queries and keys are zero")
    wrong = [n for n, (queries, keys) in found.items() if keys > _TIMES * queries + _SOMETHING]
    numbers: dict[str, Any] = {"biases": {name: list(sizes) for name, sizes in found.items()}}
    if wrong and case.is_fresh is not True:
        queries, keys = found[wrong[0]]
        return warning(
            f"in {len(wrong)} of {len(found)} attentions the keys carry a trained bias and the "
            f"queries none ({keys:.2g} and {queries:.2g} in {wrong[0]}): {listed(wrong)}",
            where=wrong,
            **numbers,
        )
    return passed(f"no keys of {len(found)} attentions carry a bias alone", **numbers)


def _size(bias: Tensor) -> float:
    return float(bias.detach().float().square().mean().sqrt())


def _bias(case: Case, call: AttentionCall, heads: Tensor | None) -> Tensor | None:
    """Of the projection whose output is these heads `[B, H, T, K]`, at most scaled; else None."""
    if heads is None:
        return None
    owner = case.module.get_submodule(call.module)
    width = heads.size(1) * heads.size(3)
    if isinstance(owner, nn.MultiheadAttention):
        fused = owner.in_proj_bias
        number = 0 if heads is call.query else 1
        return None if fused is None else fused.chunk(3)[number]
    rows = heads.transpose(1, 2).flatten(2).float()
    for name, outputs in _beside(case.record, call):
        bias = getattr(case.module.get_submodule(name), "bias", None)
        if not isinstance(bias, Tensor) or bias.dim() != 1 or bias.numel() % width:
            continue
        for output in outputs:
            if output.shape[:-1] != rows.shape[:-1] or output.size(-1) != bias.numel():
                continue
            for number, part in enumerate(torch.split(output.float(), width, -1)):
                if _is_same(part, rows):
                    return bias[number * width : (number + 1) * width]
    return None


def _beside(record: Record, call: AttentionCall) -> list[tuple[str, tuple[Tensor, ...]]]:
    """The modules in the attention's own, and beside it, with what they gave."""
    parent = call.module.rpartition(".")[0]
    return [
        (name, each.tensors)
        for name, calls in record.modules.items()
        for each in calls
        if name.startswith(f"{call.module}.") or (parent and name.startswith(f"{parent}."))
    ]


def _is_same(one: Tensor, other: Tensor) -> bool:
    along = float((one * other).sum())
    sizes = float(one.square().sum()) * float(other.square().sum())
    return sizes > 0 and 1 - along * abs(along) / sizes < _SAME
