"""dead-heads: every head contributes."""

import torch
from torch import Tensor

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.attention.heads import Heads, heads
from gnomon.doctor.facts.attention.merge import contributions
from gnomon.doctor.finding import Outcome, Skip, failure, passed

_FAULTY = """
    import torch
    from torch import nn

    def patient():
        torch.manual_seed(0)
        module = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
        with torch.no_grad():
            module.self_attn.out_proj.weight[:, 8:16] = 0.0  # nobody reads head 1
        return {"module": module, "batch": {"src": torch.randn(2, 10, 32)}}
"""
_MENDED = _FAULTY.replace("weight[:, 8:16] = 0.0  # nobody reads head 1", "weight[:, 8:16] *= 0.9")
_NOTHING = 1e-5  # of the largest head of the call


@check(
    code="dead-heads",
    title="Every head contributes",
    fault="Heads contribute nothing",
    cost="probe",
    cause="The head's weights are zero or masked out.",
    mend="Initialise that head's rows of the projections (and its columns of the output "
    "projection); if heads were pruned on purpose, take them out of the configuration.",
    reference="Voita et al. 2019; Michel et al. 2019",
    symptoms=("stuck",),
    example=_FAULTY,
    mended=_MENDED,
)
def dead_heads(case: Case) -> Outcome:
    """A head whose output is zero, or read by nothing, costs as much as the others.

    A head whose scores are all the same, or the same for every token that asks, is told, too: it
    averages, whatever the text. A model in which all output projections, or all queries, start at
    zero is fresh, not dead.
    """
    dead: list[str] = []
    causes: list[str] = []
    whole: list[str] = []
    counted, alive, asking = 0, False, False
    for each in heads(case):
        if not each.queries:
            continue
        size = contributions(case.module, case.record, each.call)
        silent = _silent(each.context)
        unread = _silent(size) if size is not None else torch.zeros_like(silent)
        blind = _blind(each.score_std) | _same_for_all(each)
        asking = asking or not _asks_nothing(each)
        counted += silent.numel()
        alive = alive or not bool((silent | unread).all())
        if bool((silent | unread).all()) and silent.numel() > 1:
            whole.append(each.module)
            continue
        dead += _named(each, silent | unread | blind)
        if bool(silent.any()):
            causes.append("Their output is zero: values are zero, or the head is masked out.")
        if bool((unread & ~silent).any()):
            causes.append("Their columns of the output projection are zero: nothing reads them.")
        if bool((blind & ~silent).any()):
            causes.append(
                "Queries or keys are zero, or the same vector for every token: the scores say "
                "nothing about it."
            )
    if not counted:
        raise Skip("no attention call shows its heads on texts of four tokens or more")
    if case.is_fresh and not asking:
        return passed("all queries, or all keys, are zero: a fresh model that starts so")
    if whole and alive:
        dead = [f"all heads of {name or 'the module'}" for name in whole] + dead
        causes.insert(0, "In a whole layer the heads' output, or the projection of it, is zero.")
    if not dead:
        return passed(
            f"all {counted} heads contribute"
            if alive
            else "every output projection is zero: a fresh model that starts so"
        )
    return failure(
        f"{len(dead)} of {counted} heads contribute nothing: {', '.join(dead[:4])}",
        where=dead,
        cause=" ".join(dict.fromkeys(causes)),
        dead=len(dead),
    )


def _silent(size: Tensor) -> Tensor:
    """Nothing beside the largest of the call."""
    return size <= _NOTHING * size.max().clamp_min(1e-30)


def _blind(score_std: Tensor) -> Tensor:
    return score_std <= _NOTHING * score_std.max()


def _same_for_all(layer: Heads) -> Tensor:
    """`[H]`: its queries, or its keys, are one vector for all tokens of a text (a bias alone)."""
    call = layer.call
    same = torch.zeros_like(layer.score_std, dtype=torch.bool)
    for vectors in (call.query, call.key):
        if vectors is not None and vectors.size(2) > 1:
            vectors = vectors.float()
            off = (vectors - vectors[:, :, :1]).abs().amax((0, 2, 3))
            same |= off <= _NOTHING * vectors.abs().amax((0, 2, 3))
    return same


def _asks_nothing(layer: Heads) -> bool:
    """All its queries, or all its keys, are zero."""
    vectors = (layer.call.query, layer.call.key)
    return any(each is not None and not bool(each.any()) for each in vectors)


def _named(layer: Heads, which: Tensor) -> list[str]:
    return [layer.name(head) for head in which.nonzero().flatten().tolist()]
