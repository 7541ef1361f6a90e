"""dead-ffn: the units of the feed-forward do something."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.finding import Outcome, Skip, failure, passed, warning

_FAULTY = """
    import torch
    from torch import nn

    def patient():
        torch.manual_seed(0)
        module = nn.TransformerEncoderLayer(32, 2, 64, batch_first=True)
        with torch.no_grad():
            module.linear1.bias.fill_(-20.0)  # no input reaches above it
        return {"module": module, "batch": {"src": torch.randn(2, 6, 32)}}
"""
_MENDED = _FAULTY.replace("fill_(-20.0)  # no input reaches above it", "fill_(0.0)")
_NOTHING = 1e-3  # of the units' usual size
_MOST, _MANY = 0.9, 0.5


@check(
    code="dead-ffn",
    title="Feed-forward units are alive",
    fault="Feed-forward units are dead",
    cost="probe",
    cause="The first projection's output lies below what the activation lets through, for every "
    "token: a bias far off, a too large step early in training, or a zeroed weight.",
    mend="Draw the layer anew with zero biases; a smaller rate or a longer warm-up; GELU dies less "
    "easily than ReLU.",
    reference="Lu et al. 2019, Dying ReLU; Vaswani et al. 2017, section 3.3",
    symptoms=("stuck",),
    example=_FAULTY,
    mended=_MENDED,
)
def dead_ffn(case: Case) -> Outcome:
    """A unit that is zero for every token neither adds anything nor gets a gradient: it stays so.

    The units are what the feed-forward's last projection reads. Trained ReLU layers are sparse, so
    only a layer whose units are nearly all dead is called broken there.
    """
    shares = {name: _dead(units) for name, units in _hidden(case)}
    if not shares:
        raise Skip(
            "no feed-forward was seen: a projection from more to fewer units, not attention's"
        )
    worst = max(shares, key=lambda each: shares[each])
    share = shares[worst]
    numbers: dict[str, Any] = {"dead": shares}
    evidence = f"{share:.0%} of the units that {worst} reads are zero for every token"
    dead = [name for name, each in shares.items() if each >= _MOST]
    dead = [name for each in dead for name in (*_writers(case, each), each)]
    if dead:
        verdict = failure if case.is_fresh is not False or share > 0.99 else warning
        return verdict(evidence, where=dead, **numbers)
    if case.is_fresh and share > _MANY:
        many = [name for name, each in shares.items() if each > _MANY]
        return warning(evidence, where=many, **numbers)
    return passed(evidence, **numbers)


def _hidden(case: Case) -> Iterator[tuple[str, Tensor]]:
    """What each projection from F to D < F of a layer reads, `[tokens, F]`."""
    blocks = case.block_names
    seen: dict[str, Tensor] = {}
    handles = []

    def keep(name: str) -> Any:
        def hook(_: nn.Module, args: tuple[Any, ...]) -> None:
            if args and isinstance(args[0], Tensor):
                seen.setdefault(name, args[0].detach())

        return hook

    for name, module in case.module.named_modules():
        weight = getattr(module, "weight", None)
        inside = any(name.startswith(f"{block}." if block else "") for block in blocks)
        if not inside or any(True for _ in module.children()) or not isinstance(weight, Tensor):
            continue
        if weight.dim() == 2 and _reads_more(module, weight):
            handles.append(module.register_forward_pre_hook(keep(name)))
    try:
        case.run(case.small, record=True)  # watched: no fused fast path
    finally:
        for handle in handles:
            handle.remove()
    for name, units in seen.items():
        yield name, units.reshape(-1, units.size(-1))


def _writers(case: Case, reader: str) -> list[str]:
    """The projections of the same layer whose outputs became what `reader` reads."""
    record = case.seen.record
    calls, modules = record.modules, dict(case.module.named_modules())
    if not calls.get(reader):
        return []
    here, size = calls[reader][0].order, calls[reader][0].inputs[0].shape[-1]
    block = next(b for b in case.block_names if reader.startswith(f"{b}." if b else ""))
    before = [
        (each[0].order, name)
        for name, each in calls.items()
        if name.startswith(f"{block}." if block else "") and each and each[0].order < here
        and each[0].outputs and each[0].outputs[0].shape[-1] == size
        and isinstance(getattr(modules[name], "weight", None), Tensor)
        and each[0].inputs and each[0].inputs[0].shape[-1] != size
    ]  # fmt: skip
    return [name for _, name in sorted(before)[-2:]]


def _reads_more(module: nn.Module, weight: Tensor) -> bool:
    if isinstance(module, nn.Embedding):
        return False
    if hasattr(module, "nf"):  # transformers' Conv1D stores [in, out]
        return weight.size(0) > weight.size(1)
    return weight.size(1) > weight.size(0)


def _dead(units: Tensor) -> float:
    size = units.abs().amax(0).float()
    # GELU and SiLU let a little of the negative through: a dead unit is small, not 0.
    usual = max(float(size.median()), float(size.mean()), 1e-2)
    return float((size <= _NOTHING * usual).float().mean()) if torch.isfinite(size).all() else 0.0
