"""Which of a pretrained network's parameters are trained on, and which stay as they are."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gnomon.errors import RecipeError
from gnomon.model import ClassifierNetwork, LoraConfig

_LAYER = re.compile(r"(?:^|\.)layers\.(\d+)\.")


@dataclass(frozen=True, kw_only=True)
class AdaptationConfig:
    """What fine-tuning leaves as it was. All of it is trained by default."""

    # embeddings and all layers stay: the labels alone are learned
    freeze_network: bool = False
    # embeddings and so many of the first layers stay
    freeze_layers: int = 0
    # token, position and segment embeddings stay
    freeze_embeddings: bool = False

    def problems(self) -> list[str]:
        """Everything that cannot work, one sentence each with the value seen and the mend."""
        if self.freeze_layers < 0:
            return [f"adaptation.freeze_layers must be 0 or more, seen {self.freeze_layers}"]
        return []

    def unused(self) -> list[str]:
        """Keys that the others leave without effect."""
        found = []
        if self.freeze_network and (self.freeze_layers or self.freeze_embeddings):
            found.append(
                "adaptation.freeze_layers and freeze_embeddings have no effect: freeze_network"
            )
        elif self.freeze_layers and self.freeze_embeddings:
            found.append("adaptation.freeze_embeddings has no effect: freeze_layers includes them")
        return found


def adapt(classifier: ClassifierNetwork, config: AdaptationConfig, lora: LoraConfig) -> None:
    """Freeze what stays, and add low-rank matrices where there are to be any.

    With LoRA all of the network's own parameters stay; what is over it (the labels) is trained.

    Raises:
        RecipeError: more layers are to stay than there are.
    """
    network = classifier.network
    layers = {found[1] for name, _ in network.named_parameters() if (found := _LAYER.search(name))}
    if config.freeze_layers > len(layers):
        raise RecipeError(
            "adaptation.freeze_layers is at most the number of the network's layers",
            seen=f"{config.freeze_layers} of {len(layers)}"
            + ("" if layers else " (an LSTM is one whole)"),
            mend="lower it; adaptation.freeze_network leaves all as it was",
        )
    if lora.rank:
        network.requires_grad_(False)
        classifier.add_lora(lora)
        return
    if config.freeze_network:
        network.requires_grad_(False)
        return
    for name, parameter in network.named_parameters():
        layer = _LAYER.search(name)
        below = layer is not None and int(layer[1]) < config.freeze_layers
        embeds = layer is None and ("tables." in name or "embedding" in name)
        if below or (embeds and (config.freeze_layers or config.freeze_embeddings)):
            parameter.requires_grad_(False)
