"""overfit-batch: the model can learn one small batch by heart."""

import time
from typing import Any

import torch

from gnomon.doctor.call import Call
from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.finding import Outcome, Skip, failure, passed, warning
from gnomon.doctor.restore import rolled_back

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
_SECONDS, _PATIENCE = 4.0, 12.0  # of the processor; of the clock, where others use it, too
_STEPS, _FEWEST = 150, 40
_ROWS, _LENGTH = 2, 16
_LEARNED, _STUCK = 0.35, 0.7  # of the first loss


@check(
    code="overfit-batch",
    title="One batch can be learned by heart",
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
    everything is put back. It shows that inputs, model, loss and labels belong together.
    """
    if not any(p.requires_grad for p in case.module.parameters()):
        raise Skip("no parameter asks for a gradient")
    case.loss_gives_gradients  # noqa: B018 - skips where no training loss is known
    call = _short(case)
    losses = _trained(case, call)
    # The mean of a few: a loss that draws something may be small by chance.
    first, last = losses[0], sum(losses[-3:]) / len(losses[-3:])
    numbers: dict[str, Any] = {"first": first, "last": last, "steps": len(losses) - 1}
    evidence = f"the loss went from {first:.3g} to {last:.3g} in {len(losses) - 1} steps"
    if first <= 0.05:
        return passed(f"{evidence}: the batch was known from the start", **numbers)
    if last <= _LEARNED * first:
        return passed(evidence, **numbers)
    if len(losses) <= _FEWEST:
        raise Skip(f"{evidence}; more would take longer than {_SECONDS:.0f} s")
    if last > _STUCK * first or last != last:
        return failure(evidence, **numbers)
    return warning(evidence, **numbers)


def _short(case: Case) -> Call:
    """Two rows, cut short where the loss can be computed on it."""
    call = case.call
    rows = call.rows(range(min(_ROWS, call.num_rows())))
    short = rows
    for stream in rows.streams:
        if rows.length(stream) > _LENGTH:
            short = short.cut(stream, 0, _LENGTH)
    for each in (short, rows):
        try:
            with torch.no_grad():
                case.module.eval()
                case.loss(each)
        except Skip:
            raise
        except Exception:  # a loss that insists on the whole batch
            continue
        return each
    return call


def _trained(case: Case, call: Call) -> list[float]:
    """The loss before each step of Adam, and after the last."""
    losses: list[float] = []
    start, clock = time.process_time(), time.perf_counter()
    with rolled_back(case.module, None, None), torch.enable_grad():
        case.module.eval()
        trained = [p for p in case.module.parameters() if p.requires_grad]
        optimizer = torch.optim.Adam(trained, lr=3e-3)
        for number in range(_STEPS + 1):
            loss = case.loss(call)
            losses.append(float(loss.detach()))
            used = (time.process_time() - start) / torch.get_num_threads()
            spent = used > _SECONDS or time.perf_counter() - clock > _PATIENCE
            learned = max(losses[-3:]) < 0.5 * _LEARNED * losses[0]
            if spent or learned or losses[-1] != losses[-1]:
                break
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(trained, 1.0)
            for group in optimizer.param_groups:
                group["lr"] = 3e-3 * min(1.0, (number + 1) / 10)
            optimizer.step()
    return losses
