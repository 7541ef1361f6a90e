"""How large gradients are, layer by layer, and how far a step moves the weights."""

from __future__ import annotations

from collections import defaultdict
from statistics import median
from typing import ClassVar

import torch
from torch import Tensor, nn

from gnomon.doctor.finding import Outcome, warning
from gnomon.doctor.monitors.layers import layer_of, trained
from gnomon.doctor.monitors.monitor import Monitor, Seen, suspicion

TITLE = "A step moves the weights, by a small part of their size"
FAULT = "Steps move the weights far too much, or hardly at all"
# Elements of each tensor by which its update is judged: the error of the root mean square is
# about 1/√(2·1024), 2 %, and no copy of the weights is needed.
_SAMPLE = 1024
# With Adam and a learning rate that fits, a step moves a matrix by about a thousandth of its size.
_TOO_FAR = 0.3


class Updates(Monitor):
    """Gradients and update-to-weight ratios: lowest, median and highest tensor of every layer."""

    kind: ClassVar[str] = "updates"

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._before: dict[str, Tensor] = {}
        self._gradients: dict[str, Tensor] = {}
        self._in_a_row = 0

    @torch.no_grad()
    def on_gradients(self, step: int) -> None:
        """Keep norms of gradients and some elements of each matrix."""
        moved = trained(self._model)
        values = [_values(p.grad) for p in moved.values() if p.grad is not None]
        norms = torch._foreach_norm(values)
        self._gradients = {
            name: norm / max(1, value.numel()) ** 0.5
            for name, norm, value in zip(moved, norms, values, strict=True)
        }
        self._before = {name: _some(p) for name, p in moved.items() if p.dim() > 1}

    def on_update(self, step: int) -> Seen | None:
        """Compare with the weights as they are now."""
        if not self._gradients:
            return None
        gradients, ratios = self.measure()
        values = {f"gradient/{k}": v for k, v in _by_layer(gradients).items()}
        values |= {f"ratio/{k}": v for k, v in _by_layer(ratios).items()}
        found = judge(self._model, gradients, ratios)
        # At step 1 a warm-up may begin from 0, and one large step alone is none too many.
        self._in_a_row = self._in_a_row + 1 if found is not None and step > 1 else 0
        if found is None or self._in_a_row < 2:
            return Seen(values)
        finding = suspicion(
            "gradient-ratio",
            FAULT,
            f"at step {step} {found.evidence}",
            cause=found.cause,
            mend=found.mend,
            reference="Karpathy, A Recipe for Training Neural Networks (update:data ratio)",
            where=found.where,
            **found.numbers,
        )
        return Seen(values, finding)

    @torch.no_grad()
    def measure(self) -> tuple[dict[str, float], dict[str, float]]:
        """Root mean squares of gradients by name, and of updates of matrices against weights."""
        parameters = dict(self._model.named_parameters())
        names = list(self._before)
        figures = [*self._gradients.values()]
        for name, before in self._before.items():
            change = _some(parameters[name]).float() - before.float()
            figures += [before.float().square().mean().sqrt(), change.square().mean().sqrt()]
        # One wait for the device.
        read = torch.stack([each.float() for each in figures]).tolist() if figures else []
        gradients = dict(zip(self._gradients, read, strict=False))
        pairs = read[len(gradients) :]
        ratios = {
            name: change / size
            for name, size, change in zip(names, pairs[::2], pairs[1::2], strict=True)
            if size > 0
        }
        self._before, self._gradients = {}, {}
        return gradients, ratios


def judge(
    model: nn.Module, gradients: dict[str, float], ratios: dict[str, float]
) -> Outcome | None:
    """What is wrong with these ratios; None when nothing is."""
    if not ratios:
        return None
    still = [name for name, ratio in ratios.items() if ratio == 0 and gradients[name] > 0]
    if len(still) * 2 > len(ratios):
        dtype = str(dict(model.named_parameters())[still[0]].dtype).removeprefix("torch.")
        return warning(
            f"{len(still)} of {len(ratios)} matrices did not change, though their gradients are "
            "not 0",
            where=still,
            cause=f"The update is smaller than the spacing of the weights' numbers ({dtype}), or "
            "the learning rate is 0.",
            mend="Keep the weights that the optimizer updates in fp32 (autocast does), or round "
            "stochastically; look at the schedule.",
            still=len(still),
        )
    worst = max(ratios, key=lambda name: ratios[name])
    middle = median(ratios.values())
    if middle <= _TOO_FAR:
        return None
    return warning(
        f"one update moves the median matrix by {middle:.0%} of its size (about 0.1 % is usual), "
        f"{worst} by {ratios[worst]:.0%}",
        where=worst,
        cause="The learning rate is far too high for these weights, or there is no warm-up.",
        mend="Lower the peak learning rate ten times, or lengthen the warm-up.",
        median=middle,
        highest=ratios[worst],
    )


def _by_layer(values: dict[str, float]) -> dict[str, float]:
    """Lowest, median and highest of each layer's tensors."""
    layers: dict[str, list[float]] = defaultdict(list)
    for name, value in values.items():
        layers[layer_of(name)].append(value)
    return {
        f"{layer}/{which}": found
        for layer, each in layers.items()
        for which, found in (("low", min(each)), ("median", median(each)), ("high", max(each)))
    }


def _values(gradient: Tensor) -> Tensor:
    return gradient.coalesce().values() if gradient.is_sparse else gradient


def _some(parameter: Tensor) -> Tensor:
    """A copy of evenly spaced elements."""
    flat = parameter.detach().reshape(-1)
    return flat[:: max(1, flat.numel() // _SAMPLE)].clone()
