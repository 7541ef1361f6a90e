"""The one experiment that every toolkit runs."""

from dataclasses import dataclass

REPORT_EVERY = 10
"""Updates between two log lines; warm-up and timed updates are multiples of it."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Sizes, regularisation and length of one measured training."""

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
