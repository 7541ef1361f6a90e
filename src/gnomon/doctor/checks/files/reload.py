"""reload: what was saved and loaded again is the same model."""

import torch

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.beside.reloaded import reloaded, same_values
from gnomon.doctor.finding import Outcome, failure, passed, warning
from gnomon.doctor.run import difference, run

_FAULTY = """
    import copy
    import torch
    from torch import nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(50, 16)
            self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
            self.scale = 1.0

        def forward(self, ids):
            return self.layer(self.scale * self.embed(ids))

    def patient():
        torch.manual_seed(0)
        model = Model()
        model.scale = 4.0  # not in the state dict
        saved = model.state_dict()

        def reload():
            again = Model()
            again.load_state_dict(saved)
            return again

        batch = {"ids": torch.randint(1, 50, (2, 8))}
        return {"module": model, "batch": batch, "reload": reload}
"""
_MENDED = _FAULTY.replace("self.scale = 1.0", 'self.register_buffer("scale", torch.tensor(1.0))')
_MENDED = _MENDED.replace("model.scale = 4.0  # not in", "model.scale.fill_(4.0)  # in")
_SHOWN = 3


@check(
    code="reload",
    title="Saved and loaded, it is the same model",
    fault="Saved and loaded, the model is another",
    cost="probe",
    cause="Something that decides the output is not saved, or not loaded.",
    mend="Keep all that decides the output in parameters, buffers or the configuration; load with "
    "strict=True and look at every name that is missing.",
    reference="TransformerLens #1725, lingua #74, fairseq #4675",
    symptoms=("deployed", "gibberish"),
    example=_FAULTY,
    mended=_MENDED,
)
def reload(case: Case) -> Outcome:
    """A model that is loaded with other weights, or other settings, answers otherwise in use.

    The second model's tensors are compared bit for bit, then its output on the same batch.
    """
    again = reloaded(case).taken()
    saved, loaded = case.module.state_dict(), again.state_dict()
    if absent := sorted(set(saved) ^ set(loaded)):
        return failure(
            f"{len(absent)} names stand in one of the two models only: {_listed(absent)}",
            where=absent,
            cause="The second model is built otherwise than the first.",
            absent=len(absent),
        )
    other = [name for name in saved if not same_values(saved[name], loaded[name])]
    rounded = [name for name in other if _is_rounded(saved[name], loaded[name])]
    if other and len(rounded) == len(other):
        kind = str(loaded[other[0]].dtype).removeprefix("torch.")
        return warning(
            f"{len(other)} of {len(saved)} tensors differ as much as rounding to half precision "
            f"makes them ({_listed(other)})",
            where=other,
            cause=f"The weights were saved or loaded in fewer bits (now {kind}).",
            mend="Save and load in the dtype the model was trained in, or measure what it costs.",
            differing=len(other),
        )
    if other:
        return failure(
            f"{len(other)} of {len(saved)} tensors have other values after loading: "
            f"{_listed(other)}",
            where=other,
            cause=f"{'None' if len(other) == len(saved) else 'Some'} of the weights "
            f"{'was' if len(other) == len(saved) else 'were not'} loaded: they are fresh ones, or "
            "of another model.",
            differing=len(other),
        )
    before = case.base
    with torch.no_grad():
        torch.manual_seed(0)
        after = run(again.to(before.main.device), before.call)
    moved = difference(after.main, before.main)
    if moved > case.tolerance:
        return failure(
            f"all {len(saved)} tensors are the same, but outputs differ by {moved:.2g} of their "
            f"spread (rounding: {case.tolerance:.0e})",
            cause="Something outside the state dict decides the output: an attribute, a buffer "
            "that is not saved, the configuration, or dropout that is alive.",
            moved=moved,
        )
    return passed(
        f"all {len(saved)} tensors are the same bits; outputs differ by {moved:.1e} "
        "of their spread",
        moved=moved,
    )


def _is_rounded(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.shape != other.shape or not one.is_floating_point():
        return False
    narrow = [torch.bfloat16, torch.float16]
    return any(
        bool(torch.equal(one.to(kind).double(), other.to(one.device).to(kind).double()))
        and same_values(other.to(kind).double(), other.double())
        for kind in narrow
    )


def _listed(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (" …" if len(names) > _SHOWN else "")
