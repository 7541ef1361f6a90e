"""A crash bundle: what a monitor wrote down when it tripped."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields as dataclass_fields
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gnomon.doctor.finding import Finding, Outcome
from gnomon.doctor.inputs import named
from gnomon.doctor.monitors.bundle import Bundle, read_bundle
from gnomon.doctor.monitors.replay import (
    again,
    autocast_to,
    inputs,
    precision,
    put_in,
    replay,
    run_again,
)
from gnomon.doctor.patient import Patient
from gnomon.doctor.restore import untouched
from gnomon.doctor.targets.target import Options, Target
from gnomon.errors import DoctorError, in_one_line

if TYPE_CHECKING:
    from gnomon.recipes import ClassificationRecipe, DocumentRecipe


def open_bundle(folder: Path, options: Options) -> Target:
    """The failed step, to be made again, and its model and batch where there is code for them.

    The code of one's own model is run only where it is named (`options.code`).

    Raises:
        DoctorError: damaged, or of a format that this gnomon does not replay; the code that was
            named builds another model.
    """
    bundle = read_bundle(folder)
    notes: list[str] = []
    patient = Patient(replay=lambda: _outcome(replay(folder)["non-finite"]))
    if options.code is not None:
        patient = _of_own(bundle, options.code, notes)
    elif bundle.kind == "gnomon":
        patient = replace(patient, **_of_run(bundle))
    elif bundle.kind == "module":
        notes.append(_how_to_run_it_again(bundle))
    lines = f", {bundle.record['lines']}" if "lines" in bundle.record else ""
    return Target(
        name=str(folder),
        kind="bundle",
        what=f"step {bundle.step} that failed{lines}",
        patient=patient,
        notes=tuple(notes),
    )


def _outcome(found: Finding) -> Outcome:
    return Outcome(
        found.verdict, found.evidence, found.numbers, found.where, found.cause, found.mend
    )


def _how_to_run_it_again(bundle: Bundle) -> str:
    """What to type to have the step made again, with the file where the model's code lies."""
    module, _, name = str(bundle.record.get("model_class", "")).rpartition(".")
    file = _file_of(bundle, module) or "FILE.py"
    function = name if name.isidentifier() else "FUNCTION"
    return (
        "below is what was found when the step failed. To make the step again, name the code that "
        f"builds the model{f' ({module}.{name})' if name else ''}, which is then run: "
        f"--code {file}:{function} (a class or function that needs no arguments)"
    )


def _file_of(bundle: Bundle, module: str) -> Path | None:
    """Where the module's file lies: where it lay, in the current folder or beside the bundle."""
    beside = [bundle.folder.resolve(), *bundle.folder.resolve().parents[:3]]
    here = Path.cwd()
    guesses = [folder / f"{module.rpartition('.')[2]}.py" for folder in (here, *beside)]
    if isinstance(kept := bundle.record.get("model_file"), str):
        guesses.insert(0, Path(kept))
    found = next((each for each in guesses if each.is_file()), None)
    if found is not None and found.is_relative_to(here):
        return found.relative_to(here)
    return found


def _of_own(bundle: Bundle, code: str, notes: list[str]) -> Patient:
    """The model that the user's code builds, with weights and batch of the failed step."""
    from gnomon.doctor.targets.code import open_code

    if bundle.kind == "gnomon":
        raise DoctorError(
            "--code builds a model of one's own",
            seen="the bundle is of a gnomon run, whose recipe builds its model",
            mend="leave --code out",
        )
    file, _, function = code.rpartition(":")
    if not file.endswith(".py"):
        raise DoctorError(
            "--code names a file and a function in it", seen=code, mend="for example mine.py:build"
        )
    opened = open_code(Path(file), function)
    module = opened.patient.module
    if module is None:
        raise DoctorError(
            "the function that --code names returns the model", seen=f"{code} returns none"
        )
    notes.append(opened.what)
    put_in(bundle, module)
    args, kwargs = inputs(bundle)
    values = named(module, args) | kwargs
    like = opened.patient.batch
    as_mapping = like is None or isinstance(like, Mapping)
    by_name = all(isinstance(key, str) for key in values)
    batch: Any = values if as_mapping and by_name else tuple(values.values())
    patient = replace(opened.patient, batch=batch)
    run: Callable[[], Tensor | None] = partial(
        run_again, module, args, kwargs, None, precision(bundle)
    )
    if _has_loss(patient, notes):
        run = partial(_step, patient, precision(bundle))
    return replace(patient, replay=lambda: _outcome(again(bundle, module, run)))


def _has_loss(patient: Patient, notes: list[str]) -> bool:
    """Whether the training loss can be computed on what a bundle holds: the model's inputs."""
    module, loss = patient.module, patient.loss
    if module is None or loss is None:
        return False
    try:
        with untouched(module), torch.no_grad():
            loss(module, patient.batch)
    except Exception as error:  # the user's code may raise anything
        notes.append(
            "its loss asks for more than the model's inputs, which are all that the bundle holds "
            f"({in_one_line(error)}): the forward pass alone is made again"
        )
        return False
    return True


def _step(patient: Patient, dtype: str | None) -> Tensor:
    """The forward and backward pass with the loss that the user's code computes."""
    assert patient.module is not None and patient.loss is not None
    with autocast_to(patient.module, dtype):
        loss = patient.loss(patient.module, patient.batch)
    loss.backward()  # type: ignore[no-untyped-call]
    return loss


def _of_run(bundle: Bundle) -> dict[str, Any]:
    from gnomon.doctor.targets.training import training_fields
    from gnomon.model import load_model
    from gnomon.recipes import ClassificationRecipe, DocumentRecipe, load_recipe

    recipe = load_recipe(bundle.folder / "recipe.toml")
    if isinstance(recipe, ClassificationRecipe):
        return _of_classifier(bundle, recipe)
    if isinstance(recipe, DocumentRecipe):
        return _of_documents(bundle, recipe)
    module = load_model(bundle.model)
    batch = {"ids": bundle.batch["0.source"], "target": bundle.batch["0.target"][:, :-1]}
    fields = {
        "module": module,
        "batch": batch,
        "config": module.config,
        "family": module.config.family,
        "pad_id": module.config.pad_id,
        "padding_side": "right",
        "folder": bundle.model,
    }
    return fields | training_fields(module, recipe, step=bundle.step - 1)


def _of_classifier(bundle: Bundle, recipe: ClassificationRecipe) -> dict[str, Any]:
    from gnomon.doctor.targets.classifier import classifier_patient
    from gnomon.doctor.targets.training import training_fields
    from gnomon.tasks import load_classifier

    classifier = load_classifier(bundle.model)
    batch = {name: bundle.batch[f"0.{name}"] for name in ("ids", "keep")}
    batch["labels"] = bundle.batch["0.target"][:, 1:]
    patient = classifier_patient(classifier, [], [], recipe, batch=batch, folder=bundle.model)
    return _fields(patient) | training_fields(classifier.network, recipe, step=bundle.step - 1)


def _of_documents(bundle: Bundle, recipe: DocumentRecipe) -> dict[str, Any]:
    from gnomon.doctor.targets.documents import predictor, trained_patient
    from gnomon.tasks.packing import PackedBatch
    from gnomon.text.framing import load_framing
    from gnomon.text.vocabulary import Vocabulary

    batch, network = bundle.batch, predictor(bundle.model)
    rows = PackedBatch(batch["0.inputs"], batch["0.target"], batch.get("0.documents"), [])
    vocabulary = Vocabulary(load_framing(bundle.model))
    state = bundle.step - 1, None
    patient = trained_patient(network, recipe, rows, vocabulary, [], state, folder=bundle.model)
    return _fields(patient)


def _fields(patient: Patient) -> dict[str, Any]:
    """All but how the step is made again."""
    found = {item.name: getattr(patient, item.name) for item in dataclass_fields(patient)}
    del found["replay"]
    return found
