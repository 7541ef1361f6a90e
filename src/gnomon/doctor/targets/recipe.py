"""A recipe before its training: the model that would be built, with optimizer and schedule."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from gnomon.doctor.patient import Patient
from gnomon.doctor.targets.classifier import Judged
from gnomon.doctor.targets.documents import open_document_recipe
from gnomon.doctor.targets.search import beam, greedy
from gnomon.doctor.targets.target import Options, Target
from gnomon.doctor.targets.training import training_fields
from gnomon.doctor.targets.vocabulary import OneText, batch_of, first_pairs
from gnomon.errors import GnomonError
from gnomon.model import BiLSTM, ClassifierNetwork, Transformer
from gnomon.recipes import (
    ClassificationRecipe,
    DocumentRecipe,
    TranslationRecipe,
    load_recipe,
)
from gnomon.recipes.tasks import translation
from gnomon.text import TokenizerPair
from gnomon.text.labelled import open_labelled
from gnomon.training import choose_device


def open_recipe(recipe: str | Path, options: Options) -> Target:
    """A preset's name or a TOML file.

    The vocabulary is the given one where the recipe names one; else it is not learned for an
    examination, and the model has as many entries as the recipe asks for.

    Raises:
        RecipeError: the recipe cannot be used.
    """
    read = load_recipe(recipe)
    if isinstance(read, ClassificationRecipe):
        return _classifier(str(recipe), read, choose_device(options.device))
    if isinstance(read, DocumentRecipe):
        return open_document_recipe(str(recipe), read, choose_device(options.device))
    read = translation(read)
    device = choose_device(options.device)
    tokenizers, notes = _given_vocabulary(read)
    torch.manual_seed(read.training.seed)
    with torch.device(device):
        module = Transformer(_sized(read, tokenizers))
    fields: dict[str, Any] = {
        "module": module,
        "config": module.config,
        "family": module.config.family,
        "pad_id": module.config.pad_id,
        "padding_side": "right",
        "max_length": read.data.max_length,
    }
    fields |= training_fields(module, read)
    if module.config.family == "encoder_decoder":
        fields |= {"generate": greedy, "beam_generate": beam}
    pairs = first_pairs(read.data)
    fields["texts"] = [pair.source for pair in pairs]
    if tokenizers is not None:
        fields["tokenizer"] = OneText(tokenizers.source)
        if pairs:
            fields["batch"] = batch_of(tokenizers, pairs, read.data.max_length, device)
    if fields.get("batch") is None:
        notes.append("the vocabulary is not learned yet: a batch of random tokens is made up")
    return Target(
        name=str(recipe),
        kind="recipe",
        what=f"the untrained {module.config.family.replace('_', '-')} of recipe {read.name}, "
        f"{sum(p.numel() for p in module.parameters()):,} parameters",
        patient=Patient(**fields),
        notes=tuple(notes),
        suppress=read.doctor.suppress,
    )


def _classifier(name: str, recipe: ClassificationRecipe, device: torch.device) -> Target:
    """The untrained classifier, with as many vocabulary entries as the recipe asks for."""
    labels: tuple[str, ...] = ("0", "1")
    notes = ["the vocabulary is not learned yet: a batch of random tokens is made up"]
    try:
        labels = open_labelled(recipe.data).labels
    except GnomonError:
        notes.append("its text cannot be read: two labels are taken for those it has")
    torch.manual_seed(recipe.training.seed)
    size = recipe.tokenizer.vocab_size
    network: Transformer | BiLSTM
    if recipe.network == "bilstm":
        network = BiLSTM(replace(recipe.bilstm, vocab_size=size))
    else:
        network = Transformer(replace(recipe.model, vocab_size=size))
    kind = recipe.data.labels_are
    module = ClassifierNetwork(network, recipe.classifier, len(labels), per_token=kind == "words")
    judged = Judged(module.to(device), kind)
    fields: dict[str, Any] = training_fields(module, recipe)
    fields |= {"module": judged, "config": network.config, "max_length": recipe.data.max_length}
    fields |= {"pad_id": 0, "padding_side": "right"}
    if isinstance(network, Transformer):
        fields["family"] = network.config.family
    return Target(
        name=name,
        kind="recipe",
        what=f"the untrained classifier of recipe {recipe.name}, "
        f"{sum(p.numel() for p in module.parameters()):,} parameters",
        patient=Patient(**fields),
        notes=tuple(notes),
        suppress=recipe.doctor.suppress,
    )


def _given_vocabulary(recipe: TranslationRecipe) -> tuple[TokenizerPair | None, list[str]]:
    config = recipe.tokenizer
    if config.model_file is None:
        return None, []
    try:
        return TokenizerPair.open(config.model_file, config.target_model_file), []
    except GnomonError as error:
        return None, [f"the given vocabulary cannot be read ({' '.join(str(error).split())})"]


def _sized(recipe: TranslationRecipe, tokenizers: TokenizerPair | None) -> Any:
    if tokenizers is None:
        size = recipe.tokenizer.vocab_size
        target = None if recipe.tokenizer.joint else size
    else:
        size = tokenizers.source.vocab_size
        target = None if tokenizers.joint else tokenizers.target.vocab_size
    return replace(recipe.model, vocab_size=size, target_vocab_size=target)
