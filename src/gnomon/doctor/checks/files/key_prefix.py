"""key-prefix: names in the saved file are the model's own."""

from collections.abc import Collection
from pathlib import Path

import torch
from safetensors import safe_open

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.beside.reloaded import reloaded
from gnomon.doctor.finding import Outcome, Skip, failure, passed

_FAULTY = """
    import torch
    from torch import nn

    def patient():
        torch.manual_seed(0)
        model = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        saved = nn.DataParallel(model).state_dict()  # each name begins with "module."

        def reload():
            again = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
            again.load_state_dict(saved, strict=False)  # and so no name is found
            return again

        return {"module": model, "batch": (torch.randn(2, 8, 16),), "reload": reload}
"""
_MENDED = (
    _FAULTY.replace("nn.DataParallel(model).state_dict()", "model.state_dict()")
    .replace('  # each name begins with "module."', "")
    .replace("saved, strict=False)  # and so no name is found", "saved)")
)
# What wrappers put into the names of what they wrap.
_WRAPPERS = ("_orig_mod.", "module.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.")
_SHOWN = 3


@check(
    code="key-prefix",
    title="Names in the saved file are the model's own",
    fault="Names in the saved file differ from the model's own",
    cost="static",
    cause="The weights were saved from a wrapper (torch.compile, DistributedDataParallel, FSDP), "
    "whose names have a prefix, and loading passes over names that it does not find.",
    mend="Save the wrapped model's own state dict (model._orig_mod, model.module), take the prefix "
    "off before loading, and load with strict=True.",
    reference="pytorch #101107 and many: `_orig_mod.` and `module.` in checkpoints",
    symptoms=("deployed", "gibberish"),
    example=_FAULTY,
    mended=_MENDED,
)
def key_prefix(case: Case) -> Outcome:
    """With strict=False a file whose names all differ loads without a word, and nothing is loaded.

    The loading code is run and watched: which names it gave to which model. Of a folder the names
    in its weights are read.
    """
    compared = []
    try:
        for load in reloaded(case).loads:
            compared.append((f"load_state_dict of {load.module}", load.missing, load.unexpected))
    except Skip:
        pass
    own = set(case.module.state_dict())
    if case.patient.folder is not None and (saved := _names_in(Path(case.patient.folder))):
        compared.append(
            (str(case.patient.folder), sorted(own - saved), sorted(saved - own))  # type: ignore[arg-type]
        )
    if not compared:
        raise Skip("there is neither a folder with weights nor code that loads them")
    for place, missing, unexpected in compared:
        prefix = _prefix(missing, unexpected)
        if prefix:
            return failure(
                f"{place}: {len(unexpected)} names are not the model's, but are without "
                f"“{prefix}”: {', '.join(unexpected[:_SHOWN])} …",
                where=list(unexpected),
                prefix=prefix,
                unexpected=len(unexpected),
            )
        if missing and unexpected and place.startswith("load_state_dict"):
            return failure(
                f"{place}: {len(missing)} names of the model are not among the given weights "
                f"({', '.join(missing[:_SHOWN])} …), {len(unexpected)} given ones are not the "
                f"model's ({', '.join(unexpected[:_SHOWN])} …)",
                where=list(missing),
                cause="The weights are of another model, or of another version of its code.",
                mend="Load with strict=True, and map each old name to its new one.",
                missing=len(missing),
                unexpected=len(unexpected),
            )
    return passed(f"names were compared in {len(compared)} places; no prefix stands before them")


def _prefix(missing: Collection[str], unexpected: Collection[str]) -> str:
    """The prefix that, taken out of unexpected names, gives missing ones."""
    wanted = set(missing)
    first = {name.split(".")[0] + "." for name in unexpected}
    for prefix in (*_WRAPPERS, *sorted(first)):
        hits = sum(name.replace(prefix, "", 1) in wanted for name in unexpected if prefix in name)
        if hits and hits * 2 >= min(len(wanted), len(unexpected)):
            return prefix
    return ""


def _names_in(folder: Path) -> set[str]:
    """Names in a folder's weights; their values are not read."""
    names: set[str] = set()
    for path in folder.glob("*.safetensors"):
        if path.name == "training.safetensors":
            continue
        try:
            with safe_open(path, framework="pt") as file:
                names |= set(file.keys())
        except Exception:  # damaged: told by whoever loads it
            return set()
    for path in () if names else folder.glob("pytorch_model*.bin"):
        try:
            names |= set(torch.load(path, map_location="meta", weights_only=True, mmap=True))
        except Exception:  # as above
            return set()
    return names
