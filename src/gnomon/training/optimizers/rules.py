"""From the [optimizer] table to what moves each group."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from gnomon.errors import RecipeError
from gnomon.training.optimizers.adamw import FusedAdamW
from gnomon.training.optimizers.config import OptimizerConfig
from gnomon.training.optimizers.eight_bit import EightBitAdamW
from gnomon.training.optimizers.groups import ParameterGroup
from gnomon.training.optimizers.package import package
from gnomon.training.optimizers.rule import Rule, TorchRule, torch_groups
from gnomon.training.optimizers.schedule_free import ScheduleFree

_BIRTH = 1.0  # some refuse a learning rate of 0; each step sets the real one


def build_rules(
    groups: Sequence[ParameterGroup],
    config: OptimizerConfig,
    *,
    adamw: Callable[[Sequence[ParameterGroup], OptimizerConfig], Rule] = FusedAdamW,
) -> list[Rule]:
    """The rules of `config`, which together move each of `groups`.

    Args:
        adamw: how AdamW is made.

    Raises:
        RecipeError: the rule does not suit these parameters, or its package is missing.
    """
    sparse = [group for group in groups if group.is_sparse]
    if sparse and config.name not in ("adamw", "muon"):
        raise RecipeError(
            "model.embedding.sparse_gradient works with optimizer.name adamw and muon",
            seen=config.name,
            mend="turn sparse_gradient off, or take adamw",
        )
    dense = [group for group in groups if not group.is_sparse]
    rules: list[Rule] = []
    if config.name == "muon":
        matrices = [group for group in dense if group.is_orthogonal]
        if not matrices:
            raise RecipeError(
                'optimizer.name "muon" is for the matrices of layers',
                seen="no layer has a matrix that is trained",
                mend='take "adamw"',
            )
        rules.append(_muon(matrices, config))
        dense = [group for group in dense if not group.is_orthogonal]
    if dense and config.states == "8bit":
        _refuse_eight_bit_on_cpu(dense)
        rules.append(EightBitAdamW(dense, config))
    elif dense:
        rules.append(
            adamw(dense, config) if config.name in ("adamw", "muon") else _dense(dense, config)
        )
    if sparse:
        rules.append(_sparse(sparse, config))
    return rules


def _refuse_eight_bit_on_cpu(groups: Sequence[ParameterGroup]) -> None:
    if any(p.device.type == "cpu" for group in groups for p in group.parameters.values()):
        raise RecipeError(
            'optimizer.states "8bit" is for GPUs: on a CPU its step takes 39 times as long',
            seen="training on the CPU",
            mend='"fp32", or optimizer.name "adafactor", which remembers less still',
        )


def _dense(groups: Sequence[ParameterGroup], config: OptimizerConfig) -> Rule:
    match config.name:
        case "adafactor":
            adafactor = torch.optim.Adafactor(torch_groups(groups), lr=_BIRTH)
            return TorchRule(adafactor, groups, ("step", "row_var", "col_var", "variance"))
        case "lion":
            lion = package("lion_pytorch", extra="lion").Lion
            optimizer = lion(torch_groups(groups), lr=_BIRTH, betas=config.betas)
            return TorchRule(optimizer, groups, ("exp_avg",))
        case _:
            free = package("schedulefree", extra="schedule-free").AdamWScheduleFree
            optimizer = free(torch_groups(groups), lr=_BIRTH, betas=config.betas, eps=config.eps)
            return ScheduleFree(optimizer, groups)


def _muon(groups: Sequence[ParameterGroup], config: OptimizerConfig) -> Rule:
    # With this factor on the rate its steps are as long as AdamW's (Liu et al. 2025, arXiv
    # 2502.16982, §2.2), so that one schedule serves both.
    muon = torch.optim.Muon(
        torch_groups(groups),
        lr=_BIRTH,
        momentum=config.momentum,
        adjust_lr_fn="match_rms_adamw",
    )
    return TorchRule(muon, groups, ("momentum_buffer",))


def _sparse(groups: Sequence[ParameterGroup], config: OptimizerConfig) -> Rule:
    adam = torch.optim.SparseAdam(
        [{"params": list(group.parameters.values())} for group in groups],
        lr=_BIRTH,
        betas=config.betas,
        eps=config.eps,
    )
    return TorchRule(adam, groups, ("step", "exp_avg", "exp_avg_sq"))
