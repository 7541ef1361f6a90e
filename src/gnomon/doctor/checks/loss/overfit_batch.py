"""overfit-batch: the model can learn one small batch by heart."""

import math
from typing import Any

import torch

from gnomon.doctor.call import Call
from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.loss.by_heart import SECONDS, short, trained
from gnomon.doctor.facts.loss.floor import bounds
from gnomon.doctor.facts.loss.objective import read_objective
from gnomon.doctor.finding import Outcome, Skip, failure, passed, warning

_FAULTY = """
    import torch
    from torch import nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(50, 32)
            self.layer = nn.TransformerEncoderLayer(32, 2, 64, dropout=0.0, batch_first=True)
            self.head = nn.Linear(32, 50)

        def forward(self, ids):
            mean = self.layer(self.embed(ids)).mean(1, keepdim=True)  # every position is the same
            return self.head(mean.expand(-1, ids.size(1), -1))

    def patient():
        torch.manual_seed(0)
        ids = torch.randint(1, 50, (2, 8))

        def loss(module, batch):
            return nn.functional.cross_entropy(module(**batch).flatten(0, 1), ids.flatten())

        return {"module": Model(), "batch": {"ids": ids}, "loss": loss}
"""
_MENDED = _FAULTY.replace(
    """mean = self.layer(self.embed(ids)).mean(1, keepdim=True)  # every position is the same
            return self.head(mean.expand(-1, ids.size(1), -1))""",
    "return self.head(self.layer(self.embed(ids)))",
)
_FEWEST = 40
_LEARNED, _STUCK = 0.35, 0.7  # of how far the first loss could fall
_KNOWN = 0.1  # of the way from knowing nothing to the floor, left: then the batch is known
_DRAWN = 0.2  # of the positions: more than any label noise meant to be there


@check(
    code="overfit-batch",
    title="One batch can be learned by heart",
    fault="One batch cannot be learned by heart",
    cost="step",
    cause="Something between the inputs and the loss keeps the information from passing: labels "
    "that do not belong to the inputs, a mask that hides them, a layer that mixes or drops them, "
    "noise, a cut in the graph.",
    mend="Look at the other findings first; then halve the model until it learns.",
    reference="Karpathy 2019, A Recipe for Training Neural Networks: overfit one batch; "
    "attention-is-all-you-need-pytorch #101",
    symptoms=("stuck", "gibberish"),
    example=_FAULTY,
    mended=_MENDED,
)
def overfit_batch(case: Case) -> Outcome:
    """A model with many times more weights than a batch has tokens must be able to learn it.

    A few seconds of Adam on two short rows, without dropout, with an optimizer of our own; then
    everything is put back. It shows that inputs, model, loss and labels belong together. Where few
    tokens are asked for, their frequencies alone may be learned: so the labels are read off the
    loss under two seeds as well. How far the loss can fall is reckoned with: smoothed and soft
    targets cost their own entropy, and a trained model may know the batch already.
    """
    if not any(p.requires_grad for p in case.module.parameters()):
        raise Skip("no parameter asks for a gradient")
    case.loss_gives_gradients  # noqa: B018 - skips where no training loss is known
    call = short(case)
    losses = trained(case, call, enough=0.5 * _LEARNED)
    # The mean of a few: a loss that draws something may be small by chance.
    first, last = losses[0], sum(losses[-3:]) / len(losses[-3:])
    numbers: dict[str, Any] = {"first": first, "last": last, "steps": len(losses) - 1}
    evidence = f"the loss went from {first:.3g} to {last:.3g} in {len(losses) - 1} steps"
    if first <= 0.05:
        return passed(f"{evidence}: the batch was known from the start", **numbers)
    if last != last:
        return failure(evidence, **numbers)
    floor, guess = (0.0, math.inf) if last <= _LEARNED * first else bounds(case, call)
    if floor > 0.01 * first:
        evidence += f" and cannot fall below {floor:.3g}, its smoothed or soft targets' entropy"
        numbers |= {"floor": floor}
    if guess < math.inf and min(first, last) - floor <= _KNOWN * (guess - floor):
        return passed(f"{evidence}; guessing costs {guess:.3g}: the batch is known", **numbers)
    left = (last - floor) / max(first - floor, 1e-9)
    if left <= _LEARNED:
        drawn = _drawn_anew(case, call)
        if drawn > _DRAWN:
            return failure(
                f"for the same inputs {drawn:.0%} of the positions are asked for another token "
                f"each time that the loss is computed; {evidence}, which the tokens' frequencies "
                "alone allow",
                cause="Labels are drawn or shuffled apart from their inputs.",
                mend="Make labels of the same rows, in the same order, as the inputs.",
                drawn=drawn,
                **numbers,
            )
        return passed(evidence, **numbers)
    if len(losses) <= _FEWEST:
        raise Skip(f"{evidence}; more would take longer than {SECONDS:.0f} s")
    if left > _STUCK:
        return failure(evidence, **numbers)
    return warning(evidence, **numbers)


def _drawn_anew(case: Case, call: Call) -> float:
    """The share of positions whose label changes with the seed though the inputs do not.

    0 where it cannot be told, and where inputs are drawn as well (masked anew, say).
    """
    inputs: list[list[torch.Tensor]] = []

    def look(_: torch.nn.Module, args: Any, kwargs: Any) -> None:
        given = [*args, *kwargs.values()]
        inputs.append([each.clone() for each in given if isinstance(each, torch.Tensor)])

    asked, read = [], []
    handle = case.module.register_forward_pre_hook(look, with_kwargs=True)
    try:
        for seed in (0, 1):
            asked.append(read_objective(case, call, seed))
            read.append(inputs[-1])
    except Skip:
        return 0.0
    finally:
        handle.remove()
    one, two = read
    if len(one) != len(two) or not all(map(torch.equal, one, two)):
        return 0.0
    first, second = asked
    both = first.counts & second.counts
    changed = (first.target != second.target) & both
    return float(changed.sum()) / max(int(both.sum()), 1)
