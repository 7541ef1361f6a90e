"""broken-tie: tables that are meant to be one share one storage."""

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor, nn

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.beside.reloaded import reloaded, tied
from gnomon.doctor.finding import NotApplicable, Outcome, Skip, failure, passed, warning
from gnomon.doctor.inputs import config_of

_FAULTY = """
    import torch
    from torch import nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(50, 16)
            self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
            self.head = nn.Linear(16, 50, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, ids):
            return self.head(self.layer(self.embed(ids)))

    def patient():
        torch.manual_seed(0)
        model = Model()
        saved = {name: value.clone() for name, value in model.state_dict().items()}
        model.load_state_dict(saved, assign=True)  # each name gets a parameter of its own
        return {"module": model, "batch": {"ids": torch.randint(1, 50, (2, 8))}}
"""
_MENDED = _FAULTY.replace(
    "model.load_state_dict(saved, assign=True)  # each name gets a parameter of its own",
    """model.load_state_dict(saved, assign=True)
        model.head.weight = model.embed.weight  # tied again""",
)
_FLAGS = ("tie_word_embeddings", "tie_embeddings", "tie_weights", "weight_tying", "tied")
_ALIKE = 0.9  # cosine of two tables; tables that were never one have about 0


@check(
    code="broken-tie",
    title="Tied tables are one storage",
    fault="Tables that should be tied are stored apart",
    cost="static",
    cause="The tie was lost when weights were loaded with assign=True, built on the meta device, "
    "sharded or exported, or one of the two was replaced.",
    mend="Tie again after loading: output.weight = embedding.weight (Hugging Face: "
    "model.tie_weights()), before the optimizer is made.",
    reference="Press & Wolf 2017; transformers #48154, accelerate #1204, TransformerLens #1725",
    symptoms=("deployed", "gibberish", "stuck"),
    example=_FAULTY,
    mended=_MENDED,
)
def broken_tie(case: Case) -> Outcome:
    """An output projection that should be the embedding goes its own way once it is a copy.

    The configuration may say that two tables are one; tables with (nearly) the same values in two
    storages were one before. Both are looked for, and whether a tie is lost by saving and loading.
    """
    module = case.module
    names = dict(module.named_parameters(remove_duplicate=False))
    for one, other in _claimed(case):
        if one in names and other in names and not _shared(names[one], names[other]):
            cosine = _cosine(names[one], names[other])
            return failure(
                f"the configuration ties {one} to {other}, but they are two storages; the cosine "
                f"of their values is {cosine:.3f}",
                where=[one, other],
                cosine=cosine,
            )
    for one, other, cosine in _alike(module, names):
        text = f"{one} and {other} are two storages with cosine {cosine:.3f}: "
        if cosine > 1 - 1e-6:
            text += "equal now, they come apart in training"
        else:
            text += "they were one table and have come apart"
        return (failure if _says_tied(case) else warning)(text, where=[one, other], cosine=cosine)
    return _after_loading(case, tied(module))


def _after_loading(case: Case, groups: list[tuple[str, ...]]) -> Outcome:
    together = "; ".join(" = ".join(group) for group in groups)
    try:
        again = {name: group for group in reloaded(case).ties for name in group}
    except Skip:
        if not groups:
            raise NotApplicable("nothing is tied, and nothing says that it should be") from None
        return passed(f"tied: {together}", groups=len(groups))
    for group in groups:
        if lost := [name for name in group if set(again.get(name, ())) != set(group)]:
            return failure(
                f"{' = '.join(group)} share one storage, but not after saving and loading",
                where=lost,
                cause="The loading code gives each name a parameter of its own.",
            )
    if not groups:
        raise NotApplicable("nothing is tied, and nothing says that it should be")
    return passed(f"tied, also after saving and loading: {together}", groups=len(groups))


def _claimed(case: Case) -> Iterator[tuple[str, str]]:
    """Pairs of names that the configuration says are one."""
    expanded = getattr(case.module, "get_expanded_tied_weights_keys", None)
    if expanded is not None:
        try:
            yield from sorted(expanded(all_submodels=True).items())
        except Exception:  # a class of the user's that claims nothing
            return


def _says_tied(case: Case) -> bool:
    config = config_of(case.patient)
    return any(getattr(config, flag, None) is True for flag in _FLAGS)


def _alike(module: nn.Module, names: Mapping[str, Tensor]) -> Iterator[tuple[str, str, float]]:
    """A token table and an output projection of its size, with nearly the same values."""
    kinds = {
        f"{name}.weight" if name else "weight": type(each)
        for name, each in module.named_modules()
        if isinstance(each, nn.Embedding | nn.Linear)
    }
    tables = [name for name, kind in kinds.items() if issubclass(kind, nn.Embedding)]
    outputs = [name for name, kind in kinds.items() if issubclass(kind, nn.Linear)]
    for table in tables:
        for output in outputs:
            one, other = names.get(table), names.get(output)
            if one is None or other is None or one.shape != other.shape or _shared(one, other):
                continue
            if (cosine := _cosine(one, other)) > _ALIKE:
                yield output, table, cosine


def _shared(one: Tensor, other: Tensor) -> bool:
    return one is other or (
        one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()
        and one.storage_offset() == other.storage_offset()
    )


def _cosine(one: Tensor, other: Tensor) -> float:
    with torch.no_grad():
        a, b = one.detach().float().flatten(), other.detach().float().flatten()
        if a.shape != b.shape or float(a.std()) == 0.0:
            return 0.0
        return float(torch.nn.functional.cosine_similarity(a, b.to(a.device), dim=0))
