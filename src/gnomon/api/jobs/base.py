"""What a classifier is fine-tuned from: the network and the vocabulary of a model folder."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from gnomon.api.load import load, task_of
from gnomon.errors import ModelError, RecipeError
from gnomon.model import BiLSTM, ClassifierNetwork, Transformer, TransformerConfig
from gnomon.model.io import CONFIG_FILE, read_config
from gnomon.recipes import (
    ClassificationRecipe,
    LanguageModelRecipe,
    Recipe,
    ReplacedTokenRecipe,
)
from gnomon.recipes.load import broken_rules
from gnomon.tasks import Classifier
from gnomon.text.framing import Framing


@dataclass(frozen=True)
class Base:
    """A pretrained network.

    Attributes:
        folder: where it lies.
        network: reads text.
        framing: its vocabulary.
        classifier: the whole, if it was one.
    """

    folder: Path
    network: Transformer | BiLSTM
    framing: Framing
    classifier: Classifier | None

    def network_for(self, recipe: ClassificationRecipe) -> Transformer | BiLSTM:
        """The network with the recipe's dropout, without a head over the vocabulary."""
        if isinstance(self.network, BiLSTM) != (recipe.network == "bilstm"):
            raise RecipeError(
                "fine-tuning keeps the network it starts from",
                seen=f"network = {recipe.network!r}, {self.folder}: {type(self.network).__name__}",
                mend="set network to what the model is",
            )
        if isinstance(self.network, BiLSTM):
            lstm = BiLSTM(replace(self.network.config, dropout=recipe.bilstm.dropout))
            lstm.load_state_dict(self.network.state_dict())
            return lstm
        return taken_over(self.network, network_of(recipe, self.network.config))

    def put_labels_into(self, found: ClassifierNetwork) -> None:
        """The labels' own weights.

        Raises:
            RecipeError: the recipe has other layers for them.
        """
        assert self.classifier is not None, "there are labels to take"
        there, here = self.classifier.network.config, found.config
        if found.per_token:  # what makes one vector of a text has no effect
            here = replace(there, bias=here.bias)
        changes = [
            f"classifier.{name}={str(value).lower()}"
            for name, value in asdict(there).items()
            if name != "dropout" and value != getattr(here, name)
        ]
        if changes:
            raise RecipeError(
                "a classifier that is trained on keeps its [classifier] table",
                seen=f"{self.folder}: {there}",
                mend=" ".join(f"--set {each}" for each in changes),
            )
        weights = {
            name: value
            for name, value in self.classifier.network.state_dict().items()
            if not name.startswith("network.")
        }
        found.load_state_dict(weights, strict=False)


def open_base(folder: Path) -> Base:
    """The network of a model folder.

    Raises:
        ModelError: it cannot be read, or is a translator's.
    """
    refuse_translators(folder)
    found = load(folder, device="cpu")
    if isinstance(found, Classifier):
        return Base(folder, found.network.network, found.framing, found)
    return Base(folder, found.model, found.framing, None)


def refuse_translators(folder: Path) -> None:
    """A classifier is one stack.

    Raises:
        ModelError: the folder's model has two.
    """
    if (task := task_of(folder)) == "translation":
        raise ModelError(
            "a classifier is fine-tuned from a model of one stack",
            seen=f"{folder}: {task}",
            mend="start from an encoder, a language model or another classifier",
        )


def network_of(recipe: Recipe, config: TransformerConfig) -> TransformerConfig:
    """The network of a fine-tuning: the given one, dropouts are the recipe's.

    What labels do not need goes: a head over the vocabulary, a pooler.
    """
    config = replace(config, dropout=recipe.model.dropout, layer_drop=recipe.model.layer_drop)
    if isinstance(recipe, LanguageModelRecipe):
        return config
    return config.without_head()


def taken_over(network: Transformer, config: TransformerConfig) -> Transformer:
    """The weights of a network in one of this configuration, which has no more parameters."""
    found = Transformer(config)
    weights = network.state_dict()
    found.load_state_dict({name: weights[name] for name in found.state_dict()})
    return found


def is_transformer(folder: Path) -> bool:
    """Whether a model folder's config describes a Transformer."""
    try:
        return "model" in json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return True  # told by whoever reads it


def adopt(recipe: Recipe, folder: Path) -> Recipe:
    """The recipe with the network of a model folder, from its configuration alone.

    Raises:
        ModelError: a classifier would begin with a translator.
        RecipeError: the recipe's other tables do not fit that network.
    """
    if not isinstance(recipe, LanguageModelRecipe):
        refuse_translators(folder)
    if isinstance(recipe, ClassificationRecipe) and (
        recipe.network == "bilstm" or not is_transformer(folder)
    ):
        return recipe  # told when the model is opened, if the two do not fit
    found = replace(recipe, model=network_of(recipe, read_config(folder)))
    if isinstance(found, ReplacedTokenRecipe):
        draws = replace(found.replacement, generator=str(folder.resolve()))
        found = replace(found, replacement=draws)
    if problems := broken_rules(found):
        raise RecipeError(
            f"the recipe must fit the model of {folder}",
            seen="; ".join(problems),
            mend="set what is not of [model], which the model decides; gnomon extend makes a model "
            "with positions that reach further",
        )
    return found


def with_network_of(recipe: Recipe, begun: Recipe) -> Recipe:
    """The recipe with the network that a run of it began with."""
    if isinstance(recipe, ReplacedTokenRecipe) and isinstance(begun, ReplacedTokenRecipe):
        recipe = replace(recipe, replacement=begun.replacement)
    return replace(recipe, model=begun.model)
