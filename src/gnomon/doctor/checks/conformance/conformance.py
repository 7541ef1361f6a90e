"""conformance: the model computes what the stock model of its configuration computes."""

import torch
from torch import Tensor, nn

from gnomon.doctor.call import Call
from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.finding import Outcome, failure, passed
from gnomon.doctor.restore import untouched
from gnomon.doctor.run import difference
from gnomon.doctor.twin import Twin, float_tensors, outputs, twin

_FAULTY = """
    import torch
    from gnomon.model import AttentionConfig, FeedForwardConfig, Transformer, TransformerConfig

    def patient():
        torch.manual_seed(0)
        model = Transformer(TransformerConfig(
            family="decoder", vocab_size=50, d_model=32, num_decoder_layers=2,
            attention=AttentionConfig(num_heads=2), feedforward=FeedForwardConfig(size=64)))
        last = model.decoder.layers[1].attention.out
        last.register_forward_hook(lambda module, inputs, output: output * 1.5)
        return {"module": model, "batch": {"ids": torch.randint(1, 50, (2, 8))}}
"""
_MENDED = _FAULTY.replace("output * 1.5", "output")


@check(
    code="conformance",
    title="It computes what its class and configuration say",
    cost="probe",
    cause="The module was changed after it was built: a submodule or method replaced, an attribute "
    "set, a hook left behind, a buffer overwritten.",
    mend="Build the model anew from its configuration and load the weights, or undo the change in "
    "the named module.",
    reference="TransformerLens #1725: a port held against the stock model of the same weights",
    symptoms=("gibberish", "deployed", "stuck"),
    example=_FAULTY,
    mended=_MENDED,
)
def conformance(case: Case) -> Outcome:
    """A stock class whose parts were exchanged still looks like one, and loads and saves like one.

    A second model is built from the configuration and given the same weights. Outputs in
    evaluation are compared module by module, then one pass in training mode under the same seed,
    then its gradients.
    """
    other = twin(case)
    call = case.small
    own_seen, stock_seen = _in_eval(case.module, call), _in_eval(other.module, call)
    found = _first_difference(own_seen, stock_seen, case.tolerance)
    if found is not None:
        name, moved = found
        return failure(
            f"with the same weights {name or 'the model'} differs from that of a stock "
            f"{type(other.module).__name__} by {moved:.2g} of its spread "
            f"(rounding: {case.tolerance:.0e}){_strange(other)}",
            where=[name, *other.strange[:4]],
            moved=moved,
        )
    training = _in_training(case, call, other.module)
    if training is not None:
        return training
    if other.strange:
        return failure(
            f"outputs are the same, but {len(other.strange)} parameters or buffers stand in one of "
            f"the two models only: {', '.join(other.strange[:3])}",
            where=other.strange,
        )
    return passed(
        f"a stock {type(other.module).__name__} of the same configuration and weights gives the "
        f"same outputs in all {len(own_seen)} module calls, and the same gradients"
    )


Seen = list[tuple[str, list[Tensor]]]


def _in_eval(module: nn.Module, call: Call) -> Seen:
    module.eval()
    with torch.no_grad(), outputs(module) as seen:
        torch.manual_seed(0)
        module(*call.args, **call.kwargs)
    return seen


def _first_difference(own: Seen, stock: Seen, tolerance: float) -> tuple[str, float] | None:
    """The first module to finish with another output, and how far off it is."""
    theirs: dict[str, list[list[Tensor]]] = {}
    for name, tensors in stock:
        theirs.setdefault(name, []).append(tensors)
    for name, tensors in own:
        if not theirs.get(name):
            continue  # a module that the stock model has not: its owner differs
        expected = theirs[name].pop(0)
        if len(tensors) != len(expected):
            continue
        for one, two in zip(tensors, expected, strict=True):
            if one.shape != two.shape:
                return name, float("inf")
            moved = difference(one, two)
            if moved > tolerance:
                return name, moved
    return None


def _in_training(case: Case, call: Call, stock: nn.Module) -> Outcome | None:
    """One pass with dropout alive, the same draws for both; then gradients."""
    seen, gradients = [], []
    for module in (case.module, stock):
        with untouched(module), torch.enable_grad(), outputs(module) as calls:
            module.train()
            torch.manual_seed(0)
            result = list(float_tensors(module(*call.args, **call.kwargs)))
            seen.append(list(calls))
            total = sum(each.float().square().mean() for each in result if each.requires_grad)
            if isinstance(total, Tensor):
                total.backward()  # type: ignore[no-untyped-call]
            named = module.named_parameters()
            gradients.append({n: p.grad.to_dense() for n, p in named if p.grad is not None})
    found = _first_difference(seen[0], seen[1], case.tolerance)
    if found is not None:
        return failure(
            f"in evaluation it is the stock {type(stock).__name__}, but in training mode under the "
            f"same seed {found[0] or 'the model'} differs by {found[1]:.2g} of its spread",
            where=found[0],
            cause="Dropout there has another probability or another place than the configuration "
            "says, or something acts in training alone.",
            moved=found[1],
        )
    missing = sorted(set(gradients[1]) - set(gradients[0]))
    if missing:
        return failure(
            f"{len(missing)} parameters get no gradient that get one in a stock "
            f"{type(stock).__name__}: {', '.join(missing[:3])}",
            where=missing,
            cause="Something is detached, or computed without gradients.",
        )
    for name, expected in gradients[1].items():
        moved = difference(gradients[0][name], expected)
        if moved > 10 * case.tolerance:
            return failure(
                f"outputs are those of the stock {type(stock).__name__}, but the gradient of "
                f"{name} differs by {moved:.2g} of its spread",
                where=name,
                cause="Something on the way back is detached, scaled or hooked.",
                moved=moved,
            )
    return None


def _strange(other: Twin) -> str:
    if not other.strange:
        return ""
    return f"; in one of the two only: {', '.join(other.strange[:3])}"
