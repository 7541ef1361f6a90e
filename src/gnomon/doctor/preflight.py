"""The examination before a training: the checks that are worth their seconds, on real text."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from gnomon.doctor.check import Check, all_checks
from gnomon.doctor.examine import choose, examine
from gnomon.doctor.monitors.probing import probing_batch
from gnomon.doctor.patient import Patient
from gnomon.doctor.report import Report
from gnomon.doctor.targets.classifier import classifier_patient
from gnomon.doctor.targets.documents import ids_of, tokenizer_of
from gnomon.doctor.targets.packed import as_trained, packed_patient
from gnomon.doctor.targets.same_parts import SameParts
from gnomon.doctor.targets.vocabulary import OneText, with_end
from gnomon.errors import CheckError
from gnomon.recipes import ClassificationRecipe, DocumentRecipe, Recipe, TranslationRecipe
from gnomon.tasks import ClassificationTask, DocumentTask, TranslationTask
from gnomon.text import Batch
from gnomon.training import Objective
from gnomon.training.optimizers import group_parameters
from gnomon.training.precision import products_in

# What spoils a run silently, and takes a few small passes at most to see. Checks that make
# optimizer steps, or judge what only a trained model has, are left to `gnomon doctor RUN`.
CHECKS = (
    "future-leak", "look-ahead-off-by-one", "padding-leak", "cross-padding", "mask-heads",
    "empty-row", "batch-leak", "packed-documents", "packed-positions", "score-scale",
    "softmax-axis", "vocabulary-range", "initial-loss", "label-shift", "labels-in-sight",
    "padding-in-loss", "decay-on-norms", "parameter-missing", "parameter-twice",
    "parameter-frozen", "parameter-unused", "adam-eps", "broken-tie", "non-finite",
    "source-ignored",
)  # fmt: skip
Examined = TranslationTask | ClassificationTask | DocumentTask
_SECONDS = 10.0
_NUM_TEXTS = 200  # looked at for a batch


def preflight(
    task: Examined,
    recipe: Recipe,
    *,
    accept: Collection[str] = (),
    seconds: float = _SECONDS,
) -> Report:
    """Examine a task as it stands before its first step; everything is left as it was.

    Args:
        accept: codes whose findings do not matter here.
        seconds: no further check is begun after so long.

    Raises:
        DoctorError: an unknown code.
    """
    choose(only=accept)  # names a slip
    reasons = dict.fromkeys(accept, "--accept") | recipe.doctor.suppress
    return examine(
        _patient_of(task, recipe),
        chosen(),
        suppress=reasons,
        target=recipe.name,
        seconds=seconds,
        described=False,  # nobody reads it there, and it would take of the time to the first step
    )


def chosen() -> list[Check]:
    """The checks, in the order of the report."""
    return [each for code, each in all_checks().items() if code in CHECKS]


def refuse(report: Report) -> None:
    """Raise what must keep a training from starting.

    Raises:
        CheckError: a check failed that was not accepted.
    """
    failed = report.of("fail")
    if not failed:
        return
    seen = [
        f"{each.code}{' at ' + ', '.join(each.where[:3]) if each.where else ''}: {each.evidence}\n"
        f"    cause: {each.cause}\n    mend: {each.mend}"
        for each in failed
    ]
    codes = " ".join(f"--accept {each.code}" for each in failed)
    raise CheckError(
        "a training starts when the doctor's checks hold",
        seen="\n  ".join(seen),
        mend=f"mend it; to train all the same, add {codes}",
    )


def _patient_of(task: Examined, recipe: Recipe) -> Patient:
    if isinstance(task, DocumentTask):
        assert isinstance(recipe, DocumentRecipe), "a task is built from its own recipe"
        return _packed(task, recipe)
    if isinstance(task, ClassificationTask):
        assert isinstance(recipe, ClassificationRecipe), "a task is built from its own recipe"
        preparation = task.preparation
        texts = preparation.splits.train.texts[:_NUM_TEXTS]
        return classifier_patient(
            task.classifier,
            preparation.train[:_NUM_TEXTS],
            texts,
            recipe,
            **_trained_by(task.model, recipe, recipe.model.d_model),
        )
    assert isinstance(recipe, TranslationRecipe), "a task is built from its own recipe"
    return _patient(task, recipe)


def _packed(task: DocumentTask, recipe: DocumentRecipe) -> Patient:
    vocabulary = task.preparation.vocabulary
    device = next(task.model.parameters()).device
    return packed_patient(
        task.model,
        as_trained(task),
        recipe,
        probing_batch(task).to(device),
        ids_of(vocabulary),
        tokenizer=tokenizer_of(vocabulary.framing),
        max_length=recipe.data.context,
        **_trained_by(task.model, recipe, task.network.config.d_model),
    )


def _trained_by(model: nn.Module, recipe: Recipe, d_model: int) -> dict[str, Any]:
    """Optimizer, schedule and precision, as the training will have them."""
    schedule = recipe.schedule.build(d_model=d_model, max_steps=recipe.training.max_steps)
    return {
        "optimizer": _groups(model, recipe, schedule(1)),
        "schedule": lambda past: schedule(past + 1),
        "clip_norm": recipe.optimizer.clip_norm or None,
        "planned_steps": recipe.training.max_steps,
        "precision": products_in(recipe.training.precision),
    }


def _patient(task: TranslationTask, recipe: TranslationRecipe) -> Patient:
    model = task.model
    device = next(model.parameters()).device
    batch = probing_batch(task).to(device)
    return Patient(
        module=AsTrained(task),
        batch={"ids": batch.source, "target": batch.target[:, :-1]},
        loss=partial(_loss, Objective(recipe.objective, pad_id=task.pad_id)),
        tokenizer=OneText(task.preparation.tokenizers.source),
        family=model.config.family,
        pad_id=model.config.pad_id,
        padding_side="right",
        max_length=recipe.data.max_length,
        config=model.config,
        recipe=recipe,
        **_trained_by(model, recipe, model.config.d_model),
    )


class AsTrained(SameParts):
    """The model by the road that training takes: the task's teacher-forced logits."""

    def __init__(self, task: TranslationTask) -> None:
        super().__init__(task.model, task.model.config)
        self._task = task

    def forward(self, ids: Tensor, target: Tensor) -> Tensor:
        """Logits `[B, T, V]`; `ids` is the source `[B, S]`, `target` the decoder's input."""
        batch = Batch(ids, target, [], [], target.numel())
        keep = torch.ones_like(target, dtype=torch.bool)
        with self.whole():
            logits = self._task.predict(batch, target, keep)
        return logits.view(*target.shape, -1)


def _loss(objective: Objective, module: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    """The training's mean over the target's tokens; of R-Drop the usual part alone."""
    target = with_end(batch["target"])
    times = objective.num_passes
    ids = batch["ids"].repeat(times, 1)
    sums = objective(target, lambda inputs, keep: module(ids, inputs)[keep])
    return sums.loss / max(1, sums.num_tokens)


@dataclass
class Groups:
    """What checks ask of an optimizer. torch's own classes take seconds to be imported."""

    param_groups: list[dict[str, Any]]
    state: dict[Tensor, Any] = field(default_factory=dict)


def _groups(model: nn.Module, recipe: Recipe, learning_rate: float) -> Groups:
    config = recipe.optimizer
    return Groups(
        [
            {
                "params": list(group.parameters.values()),
                "weight_decay": group.weight_decay,
                "decoupled_weight_decay": True,
                "lr": learning_rate * group.rate,
                **({} if group.is_orthogonal else config.adaptive()),
            }
            for group in group_parameters(model, config)
        ]
    )
