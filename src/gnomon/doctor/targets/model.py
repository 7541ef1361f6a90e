"""gnomon's own: a run, a checkpoint, a model folder."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gnomon.doctor.patient import Patient
from gnomon.doctor.targets.classifier import classifier_patient
from gnomon.doctor.targets.documents import document_model, ids_of
from gnomon.doctor.targets.search import beam, continued, greedy
from gnomon.doctor.targets.target import Options, Target
from gnomon.doctor.targets.training import training_fields
from gnomon.doctor.targets.vocabulary import NUM_TEXTS, OneText, batch_of, first_pairs
from gnomon.errors import GnomonError
from gnomon.model import load_model
from gnomon.recipes import (
    ClassificationRecipe,
    DocumentRecipe,
    Recipe,
    TranslationRecipe,
    load_recipe,
)
from gnomon.tasks import (
    Translator,
    load_classifier,
    load_language_model,
    load_translator,
    task_of,
)
from gnomon.tasks.label_rows import LabelRow
from gnomon.text import AnyTokenizer
from gnomon.text.framing import TOKENIZER_FILE
from gnomon.text.labelled import open_labelled
from gnomon.text.tokenizer_pair import load_tokenizer
from gnomon.training import RunFolder, check_weights, choose_device


def open_run(folder: Path, options: Options) -> Target:
    """A run: the model of one checkpoint with all that its training was given.

    A run without a checkpoint is examined as its recipe.

    Raises:
        RunError, RecipeError, ModelError: what is there cannot be read.
    """
    run = RunFolder.open(folder)
    if not run.checkpoints.steps() and run.recipe_path.is_file():
        from gnomon.doctor.targets.recipe import open_recipe

        return replace(
            open_recipe(run.recipe_path, options),
            notes=("the run has no checkpoint yet: it is examined as its recipe",),
        )
    opened = open_model(run.resolve(options.checkpoint), options)
    return replace(opened, name=str(folder), kind="run")


def open_model(folder: Path, options: Options) -> Target:
    """A model folder, or a checkpoint with its run around it.

    Raises:
        ModelError: the folder or its weights are damaged.
    """
    check_weights(folder)
    device = choose_device(options.device)
    task = task_of(folder)
    notes: list[str] = []
    recipe = _recipe_of(folder, notes)
    if isinstance(recipe, DocumentRecipe):
        return _open_documents(folder, device, recipe, notes)
    if task == "classification":
        return _open_classifier(folder, device, recipe, notes)
    fields: dict[str, Any] = {"folder": folder, "reload": lambda: load_model(folder, device)}
    translator = load_translator(folder, device) if task == "translation" else None
    speaker = load_language_model(folder, device) if task == "language_model" else None
    own = translator or speaker
    module = own.model if own is not None else load_model(folder, device)
    fields |= {"module": module, "config": module.config, "family": module.config.family}
    fields["pad_id"], fields["padding_side"] = module.config.pad_id, "right"
    if translator is not None:
        fields |= {
            "tokenizer": OneText(translator.tokenizers.source),
            "generate": partial(greedy, ids=translator.ids),
            "beam_generate": partial(beam, ids=translator.ids),
            "max_length": translator.longest_source,
        }
    elif (tokenizer := _tokenizer(folder)) is not None:
        fields["tokenizer"] = OneText(tokenizer)
    if speaker is not None:
        search = partial(continued, module, ids_of(speaker.vocabulary))
        fields |= {"generate": search, "beam_generate": search, "max_length": speaker.context}
    if recipe is not None:
        step, tensors = _training_state(folder)
        fields |= training_fields(module, recipe, step=step, tensors=tensors)
        if translator is not None and isinstance(recipe, TranslationRecipe):
            fields |= _text_of(translator, recipe, device, notes)
    return Target(
        name=str(folder),
        kind="model",
        what=f"a gnomon {module.config.family.replace('_', '-')} of "
        f"{sum(p.numel() for p in module.parameters()):,} parameters from {folder}",
        patient=Patient(**fields),
        notes=tuple(notes),
        suppress={} if recipe is None else recipe.doctor.suppress,
    )


def _open_classifier(
    folder: Path, device: torch.device, recipe: Recipe | None, notes: list[str]
) -> Target:
    classifier = load_classifier(folder, device)
    rows: list[LabelRow] = []
    texts: list[str] = []
    fields: dict[str, Any] = {"folder": folder}
    if isinstance(recipe, ClassificationRecipe):
        step, tensors = _training_state(folder)
        fields |= training_fields(classifier.network, recipe, step=step, tensors=tensors)
        del fields["recipe"]
        try:
            examples = open_labelled(recipe.data).train.examples[:NUM_TEXTS]
            rows = classifier.row_maker.rows(examples)
            texts = [one.text for one in examples]
        except GnomonError:
            notes.append("its training text cannot be read any more: a batch is made up")
    else:
        recipe = None
    num_parameters = sum(p.numel() for p in classifier.network.parameters())
    return Target(
        name=str(folder),
        kind="model",
        what=f"a gnomon classifier of {num_parameters:,} parameters from {folder}",
        patient=classifier_patient(classifier, rows, texts, recipe, **fields),
        notes=tuple(notes),
        suppress={} if recipe is None else recipe.doctor.suppress,
    )


def _open_documents(
    folder: Path, device: torch.device, recipe: DocumentRecipe, notes: list[str]
) -> Target:
    patient = document_model(folder, device, recipe, _training_state(folder), notes)
    assert patient.module is not None
    num_parameters = sum(p.numel() for p in patient.module.parameters())
    kind = "language model" if patient.family == "decoder" else "encoder"
    return Target(
        name=str(folder),
        kind="model",
        what=f"a gnomon {kind} of {num_parameters:,} parameters from {folder}",
        patient=patient,
        notes=tuple(notes),
        suppress=recipe.doctor.suppress,
    )


def _tokenizer(folder: Path) -> AnyTokenizer | None:
    """The vocabulary of a model of one stack; a folder of bare weights has none."""
    path = folder / TOKENIZER_FILE
    return load_tokenizer(path) if path.is_file() else None


def _recipe_of(folder: Path, notes: list[str]) -> Recipe | None:
    """The recipe of the run that a checkpoint lies in."""
    run = RunFolder(folder.resolve().parent.parent)
    if folder.resolve().parent.name != "checkpoints" or not run.recipe_path.is_file():
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # said when the run began
            return load_recipe(run.recipe_path)
    except GnomonError as error:
        notes.append(f"its recipe cannot be read ({' '.join(str(error).split())})")
        return None


def _training_state(folder: Path) -> tuple[int, dict[str, Tensor] | None]:
    """Steps made and the optimizer's states; an average has none."""
    name = folder.resolve().name
    if not name.startswith("step-"):
        return 0, None
    checkpoints = RunFolder(folder.resolve().parent.parent).checkpoints
    checkpoint = checkpoints.load(int(name.removeprefix("step-")))
    return checkpoint.state.step, dict(checkpoint.tensors)


def _text_of(
    translator: Translator, recipe: TranslationRecipe, device: torch.device, notes: list[str]
) -> dict[str, Any]:
    pairs = first_pairs(recipe.data)
    if not pairs:
        notes.append("its training text cannot be read any more: a batch is made up")
        return {}
    longest = recipe.data.max_length
    batch = batch_of(translator.tokenizers, pairs, longest, device)
    return {"batch": batch, "texts": [pair.source for pair in pairs]}
