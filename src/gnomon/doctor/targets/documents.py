"""Models of packed documents: gnomon's language models, encoders in pretraining, their recipes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from gnomon.doctor.patient import Patient
from gnomon.doctor.targets.packed import Packed, as_used, packed_patient
from gnomon.doctor.targets.target import Target
from gnomon.doctor.targets.training import OwnLoss, training_fields
from gnomon.doctor.targets.vocabulary import NUM_TEXTS, OneText
from gnomon.errors import GnomonError
from gnomon.model import (
    ClassifierConfig,
    ClassifierNetwork,
    Transformer,
    load_model,
)
from gnomon.recipes import (
    DocumentRecipe,
    LanguageModelRecipe,
    MaskedLanguageModelRecipe,
    ReplacedTokenRecipe,
)
from gnomon.tasks import load_classifier, task_of
from gnomon.tasks.document_task import Predictor
from gnomon.tasks.ids import SequenceIds
from gnomon.tasks.masked_lm import masked
from gnomon.tasks.masking import Masker
from gnomon.tasks.packing import NO_LABEL, Borders, PackedBatch, PackedRows
from gnomon.tasks.replaced_tokens import LABELS
from gnomon.text import Tokenizer, VocabularyConfig
from gnomon.text.document_files import open_documents
from gnomon.text.framing import Framing, OwnFraming, load_framing
from gnomon.text.vocabulary import Vocabulary

NUM_ROWS = 8
_CHARACTERS = 20_000  # of a document that are read
_TOKENS = 4_000  # of a made-up stream
_RESERVED = 4  # ids below it are no text


@dataclass(frozen=True)
class Stream:
    """Some documents as `PackedRows` reads them, in memory."""

    ids: NDArray[np.int64]
    starts: NDArray[np.int64]
    vocabulary: Borders

    @classmethod
    def of(cls, documents: list[list[int]], borders: Borders, *, with_ends: bool) -> Stream:
        """Of the ids of each."""
        end = [borders.end_id] if with_ends else []
        rows = [[borders.begin_id, *ids, *end] for ids in documents]
        starts = np.cumsum([0, *map(len, rows[:-1])])
        return cls(np.concatenate([np.array(row, np.int64) for row in rows]), starts, borders)

    @property
    def numbers(self) -> NDArray[np.int64]:
        """Of each document its number."""
        return np.arange(1, len(self.starts) + 1)

    def __len__(self) -> int:
        return len(self.ids)

    def release(self) -> None:
        """There is nothing on disk."""


def texts_of(recipe: DocumentRecipe) -> list[str]:
    """The first documents of the training text; none where it cannot be read."""
    try:
        train, _ = open_documents(recipe.data)
        return [text[:_CHARACTERS] for text in islice(train, NUM_TEXTS)]
    except GnomonError:
        return []


def rows_of(recipe: DocumentRecipe, texts: list[str], vocabulary: Vocabulary) -> PackedBatch:
    """Some rows of these documents, as the training packs them and hides tokens."""
    rows = _rows(recipe, vocabulary.encode(texts), vocabulary)
    spec = rows.sample(NUM_ROWS)
    if isinstance(recipe, MaskedLanguageModelRecipe):
        return masked(Masker(vocabulary, recipe.masking, recipe.training.seed), rows, spec, 0)
    batch = rows.collate(spec)
    if isinstance(recipe, ReplacedTokenRecipe):
        return _replaced(batch, recipe.replacement.share, vocabulary.vocab_size)
    return batch


def _rows(recipe: DocumentRecipe, documents: list[list[int]], borders: Borders) -> PackedRows:
    with_ends = not isinstance(recipe, LanguageModelRecipe)
    return PackedRows(Stream.of(documents, borders, with_ends=with_ends), recipe.data.context)


def _replaced(batch: PackedBatch, share: float, vocab_size: int) -> PackedBatch:
    """Some tokens drawn anew, evenly: the generator of the training is not asked."""
    generator = torch.Generator().manual_seed(0)
    text = batch.inputs
    chosen = torch.rand(text.shape, generator=generator) < share
    others = torch.randint(_RESERVED, vocab_size, text.shape, generator=generator)
    read = torch.where(chosen & (text >= _RESERVED), others, text)
    labels = (read != text).long().masked_fill(batch.target[:, 1:] == NO_LABEL, NO_LABEL)
    return replace(batch, inputs=read, target=torch.cat([batch.target[:, :1], labels], dim=1))


@dataclass(frozen=True)
class _Own:
    begin_id: int = SequenceIds().start
    end_id: int = SequenceIds().end


def made_up_rows(recipe: DocumentRecipe, vocab_size: int) -> PackedBatch:
    """Rows of random documents, short ones and long ones, where no vocabulary is learned yet."""
    draw = np.random.default_rng(0)
    documents: list[list[int]] = []
    while sum(map(len, documents)) < _TOKENS:
        length = int(draw.integers(4, max(8, min(64, recipe.data.context))))
        documents.append(draw.integers(_RESERVED, vocab_size, length).tolist())
    rows = _rows(recipe, documents, _Own())
    batch = rows.collate(rows.sample(NUM_ROWS))
    if isinstance(recipe, ReplacedTokenRecipe):
        return _replaced(batch, recipe.replacement.share, vocab_size)
    if not isinstance(recipe, MaskedLanguageModelRecipe):
        return batch
    text = batch.inputs
    generator = torch.Generator().manual_seed(0)
    chosen = torch.rand(text.shape, generator=generator) < recipe.masking.share
    chosen &= text >= _RESERVED
    labels = text.masked_fill(~chosen, NO_LABEL)
    target = torch.cat([batch.target[:, :1], labels], dim=1)
    # The last id stands for what is hidden.
    return replace(batch, inputs=text.masked_fill(chosen, vocab_size - 1), target=target)


def open_document_recipe(name: str, recipe: DocumentRecipe, device: torch.device) -> Target:
    """The untrained model of a recipe; of a vocabulary that is not learned yet, random tokens."""
    notes: list[str] = []
    vocabulary = _given_vocabulary(recipe, notes)
    size = _config(recipe).vocab_size if vocabulary is None else vocabulary.vocab_size
    torch.manual_seed(recipe.training.seed)
    config = replace(recipe.model, vocab_size=size)
    if isinstance(recipe, ReplacedTokenRecipe):  # labels take the place of the generator's head
        config = config.without_head()
    stack = Transformer(config)
    network: Predictor = stack
    if isinstance(recipe, ReplacedTokenRecipe):
        network = ClassifierNetwork(stack, ClassifierConfig(), len(LABELS), per_token=True)
    network.to(device)
    texts = texts_of(recipe) if vocabulary is not None else []
    if vocabulary is not None and texts:
        batch = rows_of(recipe, texts, vocabulary)
    else:
        notes.append("the vocabulary is not learned yet: rows of random documents are made up")
        batch = made_up_rows(recipe, size)
    family = recipe.model.family
    return Target(
        name=name,
        kind="recipe",
        what=f"the untrained {family} of recipe {recipe.name}, "
        f"{sum(p.numel() for p in network.parameters()):,} parameters",
        patient=trained_patient(network, recipe, batch.to(device), vocabulary, texts),
        notes=tuple(notes),
        suppress=recipe.doctor.suppress,
    )


def _given_vocabulary(recipe: DocumentRecipe, notes: list[str]) -> Vocabulary | None:
    file = _config(recipe).model_file
    if file is None:
        return None
    try:
        return Vocabulary(OwnFraming(Tokenizer.load(file)))
    except GnomonError as error:
        notes.append(f"the given vocabulary cannot be read ({' '.join(str(error).split())})")
        return None


def _config(recipe: DocumentRecipe) -> VocabularyConfig:
    """Of the vocabulary that is learned; a detector's is its generator's, which is not asked."""
    if isinstance(recipe, LanguageModelRecipe | MaskedLanguageModelRecipe):
        return recipe.tokenizer
    return VocabularyConfig()


def document_model(
    folder: Path,
    device: torch.device,
    recipe: DocumentRecipe,
    state: tuple[int, Mapping[str, Tensor] | None],
    notes: list[str],
) -> Patient:
    """The model of a checkpoint, with rows of its training text.

    Args:
        state: steps made, and the optimizer's states.
        notes: is added to.

    Raises:
        ModelError: the folder is damaged.
    """
    network = predictor(folder, device)
    vocabulary = Vocabulary(load_framing(folder))
    texts = texts_of(recipe)
    if texts:
        batch = rows_of(recipe, texts, vocabulary)
    else:
        notes.append("its training text cannot be read any more: rows of random documents")
        batch = made_up_rows(recipe, vocabulary.vocab_size)
    patient = trained_patient(network, recipe, batch.to(device), vocabulary, texts, state)
    module = patient.module
    assert isinstance(module, Packed)

    def reload() -> Packed:
        again = predictor(folder, device)
        return Packed(again, as_used(again), module.objective)

    return replace(patient, folder=folder, reload=reload)


def predictor(folder: Path, device: torch.device | str = "cpu") -> Predictor:
    """The network of a model folder with what predicts: a head, or labels of tokens.

    Raises:
        ModelError: the folder is damaged.
    """
    if task_of(folder) == "classification":
        return load_classifier(folder, device).network
    return load_model(folder, device)


def trained_patient(
    network: Predictor,
    recipe: DocumentRecipe,
    batch: PackedBatch,
    vocabulary: Vocabulary | None,
    texts: list[str],
    state: tuple[int, Mapping[str, Tensor] | None] = (0, None),
    **fields: Any,
) -> Patient:
    """A model as it is used, with its loss, optimizer, schedule and step."""
    patient = packed_patient(network, as_used(network), recipe, batch, ids_of(vocabulary))
    module = patient.module
    assert isinstance(module, Packed)
    own_loss = OwnLoss(module.sums, module.count)
    fields |= training_fields(network, recipe, step=state[0], tensors=state[1], own_loss=own_loss)
    fields |= {"max_length": recipe.data.context, "texts": texts}
    if vocabulary is not None:
        fields["tokenizer"] = tokenizer_of(vocabulary.framing)
    return replace(patient, **fields)


def ids_of(vocabulary: Vocabulary | None) -> SequenceIds:
    """What pads, begins and ends texts; gnomon's own ids where no vocabulary is there yet."""
    if vocabulary is None:
        return SequenceIds()
    return SequenceIds(
        pad=vocabulary.pad_id, start=vocabulary.begin_id, end=vocabulary.end_id, source_suffix=()
    )


def tokenizer_of(framing: Framing) -> OneText:
    """The vocabulary in the form in which checks ask one."""
    own: Any = getattr(framing, "tokenizer", framing)
    return OneText(own)
