"""beam-reorder: the cache of a beam follows its hypothesis."""

import torch
from torch import Tensor

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.checks.decoding.example import CACHED_MODEL
from gnomon.doctor.facts.decoding.generation import (
    continued,
    ends,
    generate,
    num_new,
    prompts,
    until_end,
)
from gnomon.doctor.finding import Outcome, Skip, failure, passed
from gnomon.doctor.run import difference

_NUM_BEAMS = 3
_MENDED = CACHED_MODEL.replace(
    "    def patient():",
    """    def beam_generate(module, batch, num_tokens, k):
        cache, B = {}, len(batch["ids"])
        ids = batch["ids"].repeat_interleave(k, 0)
        scores = torch.tensor([[0.0] + [-1e9] * (k - 1)] * B)
        made = ids[:, :0]
        for _ in range(num_tokens):
            gain = module(ids, cache)[:, -1].log_softmax(-1).view(B, k, -1)
            scores, best = (scores[..., None] + gain).flatten(1).topk(k)
            parents = (best // gain.size(-1) + torch.arange(B)[:, None] * k).flatten()
            ids = (best % gain.size(-1)).view(-1, 1)
            made = torch.cat((made[parents], ids), 1)
            cache.update({name: kept[parents] for name, kept in cache.items()})
        return made.view(B, k, -1)[:, 0]

    def patient():""",
).replace('"generate": generate}', '"beam_generate": beam_generate}')
_FAULTY = _MENDED.replace(
    "            cache.update({name: kept[parents] for name, kept in cache.items()})\n", ""
)


@check(
    code="beam-reorder",
    title="A beam's cache follows its hypothesis",
    fault="A beam's cache does not follow its hypothesis",
    cost="probe",
    cause="The rows of the cache are not put into the order of the hypotheses they belong to.",
    mend="After each step take the parents' rows of every tensor of the cache (keys, values, "
    "masks, the encoder's too): cache = cache.index_select(0, parents).",
    reference="transformers #46612, #46819, #19045; PaddleNLP #6672; joeynmt #50",
    symptoms=("gibberish", "deployed"),
    example=_FAULTY,
    mended=_MENDED,
)
def beam_reorder(case: Case) -> Outcome:
    """Hypotheses change places in every step; a cache that stays continues another one's text.

    Nothing is raised, and only wider beams get worse. Each step of the best hypothesis is scored
    again by a full pass over its text: one of the beams must have had these scores.
    """
    num_tokens = num_new(case)
    call = prompts(case, num_tokens)
    made = generate(case, call, num_tokens, _NUM_BEAMS)
    if not made.steps:
        raise Skip("nothing was seen that writes the scores of each step of the beam search")
    full, over = continued(case, call, made.tokens), ends(case)
    worst, at, row_at = 0.0, 0, 0
    for row, tokens in enumerate(made.tokens):
        for step in range(until_end(tokens, over)):
            apart = _nearest(made.steps[step][:, -1], full[row, step])
            if apart > worst:
                worst, at, row_at = apart, step, row
            if apart > case.tolerance:
                break
    if worst <= case.tolerance:
        return passed(
            f"each step of the best hypotheses was scored within {worst:.1e} of a full pass's "
            "spread",
            moved=worst,
        )
    return failure(
        f"at step {at} no beam had the scores that a full pass gives text {row_at}'s best "
        f"hypothesis: the nearest is {worst:.2g} of their spread away (rounding: "
        f"{case.tolerance:.0e})",
        cause="" if at > 1 else "Already the first step from the cache differs: see cache-differs.",
        moved=worst,
        step=at,
    )


def _nearest(beams: Tensor, full: Tensor) -> float:
    """How far the nearest of the beams' scores `[R, V]` is from `[V]`, up to a constant."""
    # Some searches write log-probabilities: they differ from logits by a constant a row.
    wide, goal = beams.double().log_softmax(-1), full.double().log_softmax(-1)
    nearest = (wide - goal).abs().amax(-1).argmin()
    return difference(wide[nearest][None], goal[None]) if torch.isfinite(goal).all() else 0.0
