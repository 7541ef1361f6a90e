"""The experiments that every toolkit runs."""

from __future__ import annotations

from dataclasses import dataclass

REPORT_EVERY = 10
"""Updates between two log lines; warm-up and timed updates are multiples of it."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Sizes, regularisation and length of one measured training; the sizes here are `small`."""

    d_model: int = 256
    feedforward: int = 1024
    num_heads: int = 4
    num_layers: int = 3  # in the encoder, and as many in the decoder
    vocab_size: int = 8000  # joint, special symbols included
    batch_tokens: int = 4096  # padded, of the longer side: how JoeyNMT and eole count
    dropout: float = 0.1  # embeddings, residual branches, inside the feed-forward, attention
    label_smoothing: float = 0.1
    clip_norm: float = 1.0
    beta2: float = 0.98
    learning_rate: float = 3e-4
    warmup_updates: int = 10  # not timed
    timed_updates: int = 40
    num_threads: int = 1
    seed: int = 1

    @property
    def num_updates(self) -> int:
        return self.warmup_updates + self.timed_updates

    def flops_per_target_token(self, sources_to_targets: float) -> float:
        """Of the products with weights, forward and backward (2 and 4 a weight and token).

        Attention's own products are not counted: 1 % at these lengths.

        Args:
            sources_to_targets: real source tokens for each real target token.
        """
        square, inner = self.d_model**2, 2 * self.d_model * self.feedforward
        of_source = 4 * square + inner + 2 * square  # the last: keys and values of the memory
        of_target = 4 * square + 2 * square + inner
        weights = self.num_layers * (of_source * sources_to_targets + of_target)
        return 6 * (weights + self.vocab_size * self.d_model)


SIZES = {
    "small": {},
    # Vaswani et al. (2017), table 3, row "base".
    "base": {
        "d_model": 512,
        "feedforward": 2048,
        "num_heads": 8,
        "num_layers": 6,
        "vocab_size": 32_000,
    },
}
