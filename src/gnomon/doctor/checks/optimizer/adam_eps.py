"""adam-eps: Adam's eps survives in the dtype of its states."""

import torch

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.training.optimizing import held, is_adaptive, optimizer_of
from gnomon.doctor.finding import NotApplicable, Outcome, Skip, failure, passed, warning

_FAULTY = """
    import torch
    from torch import nn

    def patient():
        module = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).half()
        return {"module": module, "optimizer": torch.optim.AdamW(module.parameters(), eps=1e-8)}
"""
_MENDED = _FAULTY.replace(".half()", "  # in fp32, to be run under autocast")
_LARGE = 1e-2  # beyond it Adam's step follows the gradient's size


@check(
    code="adam-eps",
    title="Adam's eps does not vanish",
    fault="Adam's eps vanishes or is too large",
    cost="static",
    cause="The parameters, and with them Adam's states, are in a dtype in which eps rounds to 0.",
    mend="Keep fp32 parameters and states (autocast for the computation), or set eps to at least "
    "1e-5 for fp16 states.",
    reference="pytorch #147437, apex #240; Kingma & Ba 2015, algorithm 1",
    symptoms=("nan",),
    example=_FAULTY,
    mended=_MENDED,
)
def adam_eps(case: Case) -> Outcome:
    """Adam divides by √v + eps: where v is 0 and eps rounds to 0, the update is 0/0 or ±∞.

    In fp16 everything below 6e-8 is 0, the usual 1e-8 included.
    """
    if not is_adaptive(optimizer_of(case)):
        raise NotApplicable("the optimizer does not divide by a second moment")
    vanished: dict[str, tuple[float, torch.dtype]] = {}
    large: dict[str, float] = {}
    values = set()
    for each in held(case):
        eps, dtype = each.options.get("eps"), each.parameter.dtype
        if not isinstance(eps, (int, float)) or not dtype.is_floating_point:
            continue
        values.add(float(eps))
        # A parameter in half precision whose states are in fp32 (a master copy) is safe.
        state = optimizer_of(case).state.get(each.parameter, {})
        moments = [v for k, v in state.items() if torch.is_tensor(v) and "sq" in k]
        kept_in = moments[0].dtype if moments else dtype
        if float(torch.tensor(eps, dtype=kept_in)) == 0.0:
            vanished[each.name] = (float(eps), kept_in)
        elif eps > _LARGE:
            large[each.name] = float(eps)
    if not values:
        raise Skip("no group of the optimizer has an eps")
    if vanished:
        eps, dtype = next(iter(vanished.values()))
        zero = "is 0" if eps == 0 else f"rounds to 0 in {str(dtype).removeprefix('torch.')}"
        return failure(
            f"eps {eps:g} {zero}, the dtype of {len(vanished)} parameters' states",
            where=list(vanished),
            eps=eps,
            count=len(vanished),
        )
    if large:
        eps = max(large.values())
        return warning(
            f"eps {eps:g} is larger than gradients of Transformers usually are: Adam's step then "
            "shrinks with the gradient instead of being about the learning rate",
            where=list(large),
            cause="eps is set far above the usual 1e-9 … 1e-6.",
            mend="eps = 1e-8 (1e-9 in Vaswani et al. 2017).",
            eps=eps,
        )
    return passed(f"eps {min(values):g} does not vanish in any state", eps=min(values))
