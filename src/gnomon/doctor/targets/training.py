"""Loss, optimizer, schedule and step of a recipe, as its training has them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from gnomon.doctor.targets.vocabulary import with_end
from gnomon.model import Transformer
from gnomon.recipes import Recipe
from gnomon.tasks.likelihood import predict
from gnomon.text import PAD_ID
from gnomon.training import Objective, OptimizerConfig
from gnomon.training.objective import LossSums
from gnomon.training.optimizers import ParameterGroup, group_parameters
from gnomon.training.optimizers.rule import TorchRule, torch_groups
from gnomon.training.optimizers.rules import build_rules
from gnomon.training.precision import products_in


class OwnLoss(NamedTuple):
    """How a training adds its loss up over micro-batches.

    Attributes:
        sums: of one.
        count: the tokens that are predicted in it.
    """

    sums: Callable[[Mapping[str, Tensor]], LossSums]
    count: Callable[[Mapping[str, Tensor]], int]


def training_fields(
    model: nn.Module,
    recipe: Recipe,
    *,
    step: int = 0,
    tensors: Mapping[str, Tensor] | None = None,
    own_loss: OwnLoss | None = None,
) -> dict[str, Any]:
    """The fields of `Patient` that say how the model is trained.

    Args:
        step: optimizer steps made so far.
        tensors: states of the optimizer, as a checkpoint holds them.
        own_loss: of a model that computes it itself where labels are given.
    """
    schedule = recipe.schedule.build(
        d_model=recipe.model.d_model, max_steps=recipe.training.max_steps
    )
    optimizer = torch_optimizer(model, recipe.optimizer, schedule(step + 1), tensors)
    fields: dict[str, Any] = {
        "optimizer": optimizer,
        "schedule": lambda past: schedule(past + 1),
        "clip_norm": recipe.optimizer.clip_norm or None,
        "planned_steps": recipe.training.max_steps,
        "precision": products_in(recipe.training.precision),
        "recipe": recipe,
    }
    if isinstance(model, Transformer) and model.config.family == "encoder_decoder":
        objective = Objective(recipe.objective, pad_id=PAD_ID)
        fields["loss"] = partial(_loss, objective)
        own_loss = OwnLoss(
            partial(_sums, objective, model),
            lambda batch: objective.num_tokens(with_end(batch["target"])),
        )
    if own_loss is not None:
        fields["step"] = _step(model, own_loss, optimizer, recipe.optimizer.clip_norm)
    return fields


def torch_optimizer(
    model: nn.Module,
    config: OptimizerConfig,
    learning_rate: float,
    tensors: Mapping[str, Tensor] | None = None,
) -> torch.optim.Optimizer:
    """The loop's own arithmetic as torch's classes have it, to look into."""
    if config.states != "fp32":  # looked at wherever the doctor runs, without its memory
        config, tensors = replace(config, states="fp32"), None
    rules = build_rules(group_parameters(model, config), config, adamw=_adamw)
    optimizers = []
    for rule in rules:
        assert isinstance(rule, TorchRule)
        if tensors is not None:
            rule.load_state_tensors(tensors)
        for options, group in zip(rule.optimizer.param_groups, rule.groups, strict=True):
            options["lr"] = learning_rate * group.rate
        optimizers.append(rule.optimizer)
    return optimizers[0] if len(optimizers) == 1 else Several(optimizers)


def _adamw(groups: Sequence[ParameterGroup], config: OptimizerConfig) -> TorchRule:
    adamw = torch.optim.AdamW(
        torch_groups(groups), lr=1.0, betas=config.betas, eps=config.eps, fused=True
    )
    return TorchRule(adamw, groups, ("step", "exp_avg", "exp_avg_sq"))


class Several(torch.optim.Optimizer):
    """Optimizers over different parameters, which step together."""

    def __init__(self, optimizers: Sequence[torch.optim.Optimizer]) -> None:
        self._optimizers = optimizers
        self.defaults = {}
        self.param_groups = [group for each in optimizers for group in each.param_groups]
        self.state = defaultdict(dict)
        for each in optimizers:
            self.state.update(each.state)
            each.state = self.state  # no parameter belongs to two of them

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """All of them."""
        for each in self._optimizers:
            each.step()


def _sums(objective: Objective, module: Transformer, batch: Mapping[str, Tensor]) -> LossSums:
    times = objective.num_passes
    source = batch["ids"].repeat(times, 1)
    target = with_end(batch["target"])
    return objective(target, lambda inputs, keep: predict(module, source, inputs, keep))


def _loss(objective: Objective, module: Transformer, batch: Mapping[str, Tensor]) -> Tensor:
    """The mean over the target's tokens, smoothing included."""
    sums = _sums(objective, module, batch)
    return sums.loss / max(1, sums.num_tokens)


def _step(
    model: nn.Module, own_loss: OwnLoss, optimizer: torch.optim.Optimizer, clip_norm: float
) -> Callable[[Sequence[Mapping[str, Tensor]]], float]:
    """One step as the loop makes it: the mean over the tokens of all micro-batches, then clip."""

    def step(batches: Sequence[Mapping[str, Tensor]]) -> float:
        optimizer.zero_grad(set_to_none=True)
        num_tokens = max(1, sum(map(own_loss.count, batches)))
        total = 0.0
        for batch in batches:
            loss = own_loss.sums(batch).loss / num_tokens
            loss.backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
        if clip_norm:
            torch.nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return total

    return step
