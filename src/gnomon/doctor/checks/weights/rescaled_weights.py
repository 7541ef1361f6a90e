"""rescaled-weights: no part of a trained model gets better by a mere factor."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from gnomon.doctor.as_found import Weights
from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.layers.norms import norms
from gnomon.doctor.finding import NotApplicable, Outcome, Skip, passed, warning

_FAULTY = """
    import torch
    from torch import nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(20, 32)
            self.layer = nn.TransformerEncoderLayer(32, 2, 64, dropout=0.0, batch_first=True)
            self.head = nn.Linear(32, 20)

        def forward(self, ids):
            hidden = ~torch.ones(ids.size(1), ids.size(1)).tril().bool()
            return self.head(self.layer(self.embed(ids), src_mask=hidden))

    def batch():  # each step goes up by 1, 2 or 3
        steps = torch.randint(1, 4, (32, 9))
        return {"ids": steps.cumsum(1) % 20}

    def loss(module, batch):
        logits = module(batch["ids"])[:, :-1]
        return nn.functional.cross_entropy(logits.flatten(0, 1), batch["ids"][:, 1:].flatten())

    def patient():
        torch.manual_seed(0)
        module = Model()
        optimizer = torch.optim.Adam(module.parameters(), 3e-3)
        for _ in range(60):
            optimizer.zero_grad()
            loss(module, batch()).backward()
            optimizer.step()
        with torch.no_grad():
            for linear in (module.layer.linear1, module.layer.linear2):
                linear.weight *= 5.0  # alpha / r was applied when it was merged, and once more
        return {"module": module, "batch": batch(), "loss": loss}
"""
_MENDED = _FAULTY.replace(
    "*= 5.0  # alpha / r was applied when it was merged, and once more", "*= 1.0"
)
_FACTORS = (0.2, 0.5, 0.7, 1.4, 2.0, 5.0)
_SHARE, _NATS = 0.03, 0.08  # of the loss, and absolute: by how much a factor may help
_FEWEST = 16  # predictions


@check(
    code="rescaled-weights",
    title="No factor on one part of the weights helps",
    fault="Part of the weights seems to have been multiplied by a factor",
    cost="probe",
    cause="These weights were rescaled after training: a convention of another library (gain - 1, "
    "an alpha of LoRA, a quantisation scale), or a factor applied twice or not at all.",
    mend="Convert with the right convention; multiply by the factor that is named, and compare.",
    reference="transformers #29402 (Gemma's gains); Hu et al. 2021, LoRA (alpha / r)",
    symptoms=("gibberish", "deployed"),
    example=_FAULTY,
    mended=_MENDED,
)
def rescaled_weights(case: Case) -> Outcome:
    """Training has set the size of everything to where the loss is least, so in a trained model no
    factor on all gains, all shifts, all attention, all feed-forward or all tables should lower the
    loss on text of its own kind by much. Where one does, that part does not have the size it was
    trained with.

    A factor on the logits lowers the loss of a model that was trained with label smoothing, or that
    knows this batch by heart. So a part must help more than the last norm's gain and shift do,
    which are such a factor.
    """
    case.must_be_trained()
    if case.patient.batch is None:
        raise Skip("no batch of its own text was handed over")
    if case.labels_are_invented:
        raise Skip("the batch has no labels")
    call = case.brief
    if int(call.keep(call.read).sum()) < _FEWEST:
        raise Skip("the batch has fewer than 16 tokens")

    def loss() -> float:
        with torch.no_grad():
            return float(case.loss(call))

    case.module.eval()
    base = loss()
    parts = _parts(case)
    tried = {
        name: best
        for name, parameters in parts.items()
        if (best := _best(parameters, loss)) is not None
    }
    if not tried or not math.isfinite(base):
        raise Skip("no part of the weights was recognised, or the loss is not a number")
    _, sharper = _best(_last_norm(case), loss) or (1.0, base)
    usual = min(base, sharper)
    part, (factor, least) = min(tried.items(), key=lambda each: each[1][1])
    numbers: dict[str, Any] = {"loss": base, "with_factor": {n: list(t) for n, t in tried.items()}}
    if usual - least > max(_NATS, _SHARE * base):
        if least > (counts := _counts_alone(case)):
            raise NotApplicable(
                f"with the best factor, too, it predicts worse than counts of the tokens would "
                f"({least:.3f}, {counts:.3f} nats): it has learned too little to have a size"
            )
        return warning(
            f"with {part} times {factor:g} the loss on this batch is {least:.3f} instead of "
            f"{base:.3f} (with the last norm's times another factor {sharper:.3f})",
            where=[name for name, _ in parts[part]],
            **numbers,
        )
    return passed(
        f"the loss is {base:.3f}; the best of {len(_FACTORS)} factors on each of {len(tried)} "
        f"parts gives {least:.3f} ({part} times {factor:g})",
        **numbers,
    )


def _counts_alone(case: Case) -> float:
    """The loss of predicting what is asked for by its frequency alone; ∞ where that is not known.

    The entropy of the counts, corrected for their number (Miller 1955).
    """
    try:
        objective = case.objective
    except Skip:
        return math.inf
    asked = objective.target[objective.counts & (objective.mass > 0.5)]
    if not asked.numel():
        return math.inf
    counts = asked.bincount()
    counts = counts[counts > 0].double()
    share = counts / counts.sum()
    return float(-(share * share.log()).sum() + (len(counts) - 1) / (2 * counts.sum()))


Parameters = list[tuple[str, nn.Parameter]]


def _parts(case: Case) -> dict[str, Parameters]:
    """The parameters by what they do."""
    tables = {id(m.weight) for m in case.module.modules() if isinstance(m, nn.Embedding)}
    heads = {id(m.weight) for m in case.module.modules() if isinstance(m, nn.Linear)}
    ids = {
        "the gains of all norms": {id(n.call.weight) for n in norms(case)},
        "the shifts of all norms": {id(n.call.bias) for n in norms(case)},
        # one that is the output projection too is a factor on the logits
        "all tables": tables - heads,
    }
    attentions = tuple(f"{c.module}." if c.module else "" for c in case.record.attention)
    layers = tuple(f"{name}." if name else "" for name in case.block_names)
    found: dict[str, Parameters] = {}
    for name, parameter in case.module.named_parameters():
        known = [part for part, members in ids.items() if id(parameter) in members]
        if known:
            part = known[0]
        elif name.startswith(attentions):
            part = "all attention"
        elif name.startswith(layers):
            part = "all feed-forward"
        else:
            continue
        found.setdefault(part, []).append((name, parameter))
    return found


def _last_norm(case: Case) -> Parameters:
    """Gain and shift of the norm that was called last."""
    last = case.seen.record.norms[-1] if case.seen.record.norms else None
    own = {id(last.weight), id(last.bias)} if last is not None else set()
    return [(n, p) for n, p in case.module.named_parameters() if id(p) in own]


def _best(parameters: Parameters, loss: Callable[[], float]) -> tuple[float, float] | None:
    """The factor with the least loss, and that loss; None where no loss is a number."""
    results = []
    for factor in _FACTORS:
        with _multiplied([parameter for _, parameter in parameters], factor):
            results.append((factor, loss()))
    finite = [each for each in results if math.isfinite(each[1])]
    return min(finite, key=lambda each: each[1]) if finite else None


@contextmanager
def _multiplied(parameters: list[nn.Parameter], factor: float) -> Iterator[None]:
    """The parameters times a factor inside, bit for bit as they were outside."""
    before = Weights(parameters)
    try:
        with torch.no_grad():
            for parameter in parameters:
                parameter.mul_(factor)
        yield
    finally:
        before.put_back()
