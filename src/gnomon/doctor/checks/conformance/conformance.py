"""conformance: the model computes what the stock model of its configuration computes."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gnomon.doctor.call import Call
from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.beside.twin import Passed, Twin, float_tensors, passed_through, twin
from gnomon.doctor.finding import Outcome, failure, passed
from gnomon.doctor.restore import untouched
from gnomon.doctor.run import difference

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
    fault="It does not compute what its class and configuration say",
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
        return failure(
            f"with the same weights {found.told} differs from that of a stock "
            f"{type(other.module).__name__} by {found.moved:.2g} of its spread "
            f"(rounding: {case.tolerance:.0e}){_strange(other)}",
            where=[*found.where, *other.strange[:4]],
            cause=found.cause,
            moved=found.moved,
        )
    count = len(own_seen)
    del own_seen, stock_seen  # they hold all activations
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
        f"same outputs in all {count} module calls, and the same gradients"
    )


@dataclass(frozen=True)
class _Difference:
    """The first module to finish with another output.

    Attributes:
        output: which of its outputs, by path.
        fed: what it was given differed already, so the code that feeds it is at fault.
    """

    module: str
    output: str
    moved: float
    fed: bool

    @property
    def where(self) -> list[str]:
        """The module at fault first."""
        owner = self.module.rpartition(".")[0]
        if not self.module:  # all inside it is right: what the whole model gives was changed
            return [self.output]
        return [owner, self.module] if self.fed and owner else [self.module]

    @property
    def told(self) -> str:
        """What differs."""
        if not self.module:
            return f"{self.output}, the output of the model,"
        return f"what reaches {self.module}" if self.fed else f"the output of {self.module}"

    @property
    def cause(self) -> str:
        """Where to look."""
        if not self.module:
            return "All modules inside it agree: the model's own forward was replaced or hooked."
        if not self.fed:
            return ""
        owner = self.module.rpartition(".")[0] or "the model"
        return f"The code of {owner} between its modules is not the stock one."


def _in_eval(module: nn.Module, call: Call) -> list[Passed]:
    module.eval()
    with torch.no_grad(), passed_through(module) as seen:
        torch.manual_seed(0)
        module(*call.args, **call.kwargs)
    return seen


def _first_difference(
    own: list[Passed], stock: list[Passed], tolerance: float
) -> _Difference | None:
    theirs: dict[str, list[Passed]] = {}
    for each in stock:
        theirs.setdefault(each.module, []).append(each)
    for each in own:
        if not theirs.get(each.module):
            continue  # a module that the stock model has not: its owner differs
        expected = theirs[each.module].pop(0)
        # Some give their weights beside the output, and others do not.
        pairs = zip(each.outputs.items(), expected.outputs.values(), strict=False)
        moved = {path: _moved(a, b) for (path, a), b in pairs}
        first = next((path for path, by in moved.items() if by > tolerance), None)
        if first is not None:
            inputs = zip(each.inputs, expected.inputs, strict=False)
            fed = any(_moved(a, b) > tolerance for a, b in inputs)
            return _Difference(each.module, first, moved[first], fed)
    return None


def _moved(one: Tensor, other: Tensor) -> float:
    return difference(one, other) if one.shape == other.shape else float("inf")


def _in_training(case: Case, call: Call, stock: nn.Module) -> Outcome | None:
    """One pass with dropout alive, the same draws for both; then gradients."""
    seen, gradients = [], []
    for module in (case.module, stock):
        with untouched(module), torch.enable_grad(), passed_through(module) as calls:
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
            f"same seed {found.told} differs by {found.moved:.2g} of its spread",
            where=found.where,
            cause="Dropout there has another probability or another place than the configuration "
            "says, or something acts in training alone.",
            moved=found.moved,
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
