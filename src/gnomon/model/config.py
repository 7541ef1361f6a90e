"""The whole model's configuration: the tree of its components' configurations."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

from gnomon.model.attention import AttentionConfig
from gnomon.model.embedding import EmbeddingConfig, Tie
from gnomon.model.feedforward import FeedForwardConfig
from gnomon.model.head import HeadConfig
from gnomon.model.norm import NormConfig
from gnomon.model.positions import PositionConfig
from gnomon.model.problems import find_problems, find_unused

StackName = Literal["encoder", "decoder"]


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """Every choice that makes a Transformer; the defaults are the 2017 base model."""

    # encoder_decoder translates, encoder reads (BERT), decoder continues (GPT)
    family: Literal["encoder_decoder", "encoder", "decoder"] = "encoder_decoder"
    # V, entries of the vocabulary (the source's, where there are two)
    vocab_size: int = 37_000
    # the target's vocabulary; None: the source's
    target_vocab_size: int | None = None
    # the id that fills up short texts; None: there is no padding to recognise
    pad_id: int | None = 0
    # D, width of the hidden states
    d_model: int = 512
    num_encoder_layers: int = 6
    num_decoder_layers: int = 6
    attention: AttentionConfig = field(default_factory=AttentionConfig)
    feedforward: FeedForwardConfig = field(default_factory=FeedForwardConfig)
    norm: NormConfig = field(default_factory=NormConfig)
    position: PositionConfig = field(default_factory=PositionConfig)
    embedding: EmbeddingConfig = field(default_factory=EmbeddingConfig)
    head: HeadConfig = field(default_factory=HeadConfig)
    # a dense layer and tanh over the first token's hidden state (BERT's pooler); of an encoder
    pooler: bool = False
    # on the output of every sublayer and, unless embedding.dropout says otherwise, on embeddings
    dropout: float = 0.1
    # how likely each layer is passed over as a whole in a training step (Fan et al., 2019); a
    # batch is one draw, so R-Drop's two passes share it, and nothing is rescaled afterwards
    layer_drop: float = 0.0
    # one table for several uses: decoder: target embedding and output; inputs: source and target
    # embedding (T5 1.1); all: all three
    tie: Tie = "all"

    def output_vocab_size(self) -> int:
        """Number of logits."""
        return self.target_vocab_size or self.vocab_size

    def max_positions(self) -> int | None:
        """The longest text in tokens that the positions reach; None where they have no end."""
        return self.position.max_length if self.position.kind == "learned" else None

    def without_head(self) -> TransformerConfig:
        """The same stack that gives hidden states alone: no head over the vocabulary, no pooler."""
        return replace(self, head=HeadConfig(kind="none"), pooler=False, tie="none")

    def turns_by_length(self) -> bool:
        """Whether a token's vectors depend on how long its text is, ahead of it, too."""
        return self.position.kind == "rope" and self.position.rope.scaling == "dynamic_ntk"

    def draws_in_training(self) -> bool:
        """Whether a text that stands twice in a training batch is seen in two ways.

        Dropout does that; layers are passed over for the whole batch.
        """
        return any(
            probability
            for probability in (
                self.dropout,
                self.embedding.dropout,
                self.attention.dropout,
                self.feedforward.dropout,
            )
        )

    def has_encoder(self) -> bool:
        """Whether there is an encoder stack."""
        return self.family != "decoder"

    def has_decoder(self) -> bool:
        """Whether there is a decoder stack."""
        return self.family != "encoder"

    def roles(self) -> tuple[str, ...]:
        """The uses this family has for a token table, in the order that decides who owns it."""
        uses = {
            "source": self.has_encoder(),
            "target": self.has_decoder(),
            "output": self.head.kind != "none",
        }
        return tuple(role for role, used in uses.items() if used)

    def residual_scales(self, stack: StackName) -> tuple[float, float]:
        """DeepNorm's alpha and beta (Wang et al., 2022, table 1); (1, 1) for other placements."""
        if self.norm.placement != "deepnorm":
            return 1.0, 1.0
        N, M = self.num_encoder_layers, self.num_decoder_layers
        if self.family == "encoder_decoder":
            if stack == "encoder":
                depth = (N**4 * M) ** (1 / 16)
                return 0.81 * depth, 0.87 / depth
            return (3 * M) ** 0.25, (12 * M) ** -0.25
        depth = N if stack == "encoder" else M
        return (2 * depth) ** 0.25, (8 * depth) ** -0.25

    def problems(self) -> list[str]:
        """Everything that cannot work, one sentence each with the value seen and the mend."""
        return find_problems(self)

    def unused(self) -> list[str]:
        """Keys that the others leave without effect, one sentence each."""
        return find_unused(self)
