"""untrained-weights: in a trained model no projection is noise."""

import math
from typing import Any

import torch
from torch import Tensor

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.facts.beside.stock import stock
from gnomon.doctor.facts.layers.kinds import by_kind, matrices
from gnomon.doctor.facts.training.optimizing import listed
from gnomon.doctor.finding import Outcome, Skip, passed, warning

_FAULTY = """
    import torch
    from torch import nn

    def trained(weight):  # what training leaves in a matrix: a few strong directions
        towards = torch.randn(weight.size(0), 2) @ torch.randn(2, weight.size(1))
        weight += 0.1 * towards

    def patient():
        torch.manual_seed(0)
        module = nn.TransformerEncoderLayer(32, 2, 64, batch_first=True)
        with torch.no_grad():
            module.norm1.weight += 0.1 * torch.randn(32)
            trained(module.self_attn.in_proj_weight)
            trained(module.self_attn.out_proj.weight)
            trained(module.linear1.weight)
            # linear2 was called ffn.2 in the file: its weights were not loaded
        return {"module": module, "batch": {"src": torch.randn(2, 6, 32)}}
"""
_MENDED = _FAULTY.replace(
    "# linear2 was called ffn.2 in the file: its weights were not loaded",
    "trained(module.linear2.weight)",
)
_FEWEST = 16  # rows and columns: with fewer, chance alone gives any ratio
_NOISE = 1.08  # of what chance gives; chance itself stays below at these sizes
_STRUCTURE = 1.15  # the least of the rest: else the model is not trained enough to tell
_OTHERWISE = 1.2  # between spreads; of 256 draws and more
_STEPS = 30  # of power iteration


@check(
    code="untrained-weights",
    title="No projection of a trained model is noise",
    fault="A projection of a trained model is still noise",
    cost="static",
    cause="These weights were never trained: their names were missing in the file that was loaded, "
    "they were drawn anew, or the optimizer does not have them.",
    mend="Read what loading says about missing keys and map the names; or train them (before "
    "fine-tuning, a new head is as it should be).",
    reference="Marchenko and Pastur 1967; Martin and Mahoney 2021 (spectra of trained weights)",
    symptoms=("gibberish", "deployed", "stuck"),
    example=_FAULTY,
    mended=_MENDED,
)
def untrained_weights(case: Case) -> Outcome:
    """Loading by name passes over what does not fit, and the model works with noise in that place.

    Independent draws of deviation s in an m × n matrix have a largest singular value of
    s (√m + √n), whatever they are drawn from. Training adds few strong directions, which lie
    beyond. Told where every layer's matrix of one kind is at chance and all others are beyond;
    where that is more than half of the model, only of those that their class draws otherwise.
    """
    case.must_be_trained()
    found = {n: w for n, w in matrices(case).items() if min(w.shape) >= _FEWEST}
    beyond = {name: _beyond_chance(weight) for name, weight in found.items()}
    beyond = {name: ratio for name, ratio in beyond.items() if math.isfinite(ratio)}
    if len(beyond) < 3:
        raise Skip("the model has fewer than three projections of 16 units or more")
    noise = [
        name
        for names in by_kind(beyond).values()
        for name in names
        if max(beyond[each] for each in names) <= _NOISE
    ]
    if 2 * len(noise) > len(beyond):  # little training leaves most where they were drawn
        noise = [name for name in noise if _drawn_otherwise(case, name)]
    rest = [ratio for name, ratio in beyond.items() if name not in noise]
    numbers: dict[str, Any] = {"beyond_chance": beyond}
    if noise and rest and min(rest) >= _STRUCTURE:
        return warning(
            f"{len(noise)} of {len(beyond)} projections hold no more structure than chance "
            f"({beyond[noise[0]]:.2f} times its largest singular value; the others {min(rest):.2f} "
            f"to {max(rest):.2f}): {listed(noise)}",
            where=noise,
            **numbers,
        )
    return passed(
        f"the largest singular value is {min(beyond.values()):.2f} to {max(beyond.values()):.2f} "
        f"times that of noise, in {len(beyond)} projections",
        **numbers,
    )


def _drawn_otherwise(case: Case, name: str) -> bool:
    """Whether its spread is not that of a draw of the model's class, where that is known."""
    try:
        theirs = dict(stock(case).named_parameters()).get(name)
    except Skip:
        return False
    own = case.module.get_parameter(name).detach()
    if theirs is None or theirs.shape != own.shape:
        return False
    ratio = float(own.float().std() / theirs.detach().float().std().clamp_min(1e-30))
    return not 1 / _OTHERWISE <= ratio <= _OTHERWISE


def _beyond_chance(weight: Tensor) -> float:
    """The largest singular value, as a multiple of what independent draws would have."""
    centred = weight.float() - weight.float().mean()
    spread = float(centred.std())
    if spread == 0 or not math.isfinite(spread):
        return math.nan
    generator = torch.Generator().manual_seed(0)
    right = torch.randn(weight.size(1), generator=generator).to(centred)
    for _ in range(_STEPS):
        right = centred.T @ (centred @ right)
        right = right / right.norm()
    largest = float((centred @ right).norm())
    return largest / (spread * (math.sqrt(weight.size(0)) + math.sqrt(weight.size(1))))
