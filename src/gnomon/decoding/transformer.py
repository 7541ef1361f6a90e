"""A Transformer as a `TokenScorer`, with its keys and values cached between steps."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from gnomon.model import Transformer


class _CachedScorer:
    """What both families share: a cache row per hypothesis, those of a sentence side by side.

    Args:
        model: in eval mode.
        num_sentences: how many the search begins with.
        max_length: tokens (with EOS) of the longest output; see `Transformer.new_cache`.
    """

    def __init__(self, model: Transformer, num_sentences: int, max_length: int | None) -> None:
        assert not model.training, "dropout would make the scores random: call model.eval()"
        self.model = model
        self.cache = model.new_cache(max_length)
        self.num_sentences = num_sentences

    def log_probs(self, hidden: Tensor, tokens: Tensor) -> Tensor:
        """fp32 [B, k, V] after the last token of `hidden` [B * k, T, D]."""
        logits: Tensor = self.model.project(hidden[:, -1]).float()
        return logits.log_softmax(-1).view(*tokens.shape, -1)

    @torch.inference_mode()
    def select(self, sentences: Tensor | None, parents: Tensor) -> None:
        """See `TokenScorer.select`."""
        self.cache.select(sentences, parents)
        self.num_sentences = parents.size(0)


class EncoderDecoderScorer(_CachedScorer):
    """Scores the next target token of an encoder-decoder; the source is encoded once.

    Args:
        model: of family "encoder_decoder", in eval mode.
        source: [B, S] int64, padded.
        keep: [B, S] boolean, True at real tokens; None: where `source` is not padding.
        max_length: see `Transformer.new_cache`.
        attends: whether `attention` will be asked for; it costs a second look at the source.
    """

    def __init__(
        self,
        model: Transformer,
        source: Tensor,
        keep: Tensor | None = None,
        *,
        max_length: int | None = None,
        attends: bool = False,
    ) -> None:
        super().__init__(model, source.size(0), max_length)
        self.cache.layers[-1].keeps_attention = attends
        self.keep = model.keep(source) if keep is None else keep
        with torch.inference_mode():
            self.memory = model.encode(source, self.keep)

    @property
    def device(self) -> torch.device:
        """Where the source is, and so the search."""
        return self.memory.device

    @torch.inference_mode()
    def next_log_probs(self, tokens: Tensor) -> Tensor:
        """See `TokenScorer.next_log_probs`."""
        rows = tokens.reshape(-1, 1)
        hidden = self.model.decode(rows, self.memory, self.keep, cache=self.cache)
        return self.log_probs(hidden, tokens)

    def attention(self) -> tuple[Tensor, Tensor]:
        """See `AttendingScorer.attention`: the last layer's, the mean over its heads."""
        weights, keep = self.cache.layers[-1].memory_attention, self.cache.memory_keep
        assert weights is not None, "ask for it at the beginning: attends=True"
        if keep is None:
            keep = weights.new_ones(weights.size(0), weights.size(2), dtype=torch.bool)
        return weights.float(), keep


class DecoderScorer(_CachedScorer):
    """Scores the next token of a decoder-only language model after a prompt.

    Args:
        model: of family "decoder", in eval mode.
        prompts: ids of each text so far, without the BOS that the search begins with; a prompt
            may be empty.
        device: where the model is.
        max_length: of prompt and output together; see `Transformer.new_cache`.
        begun: the prompts hold all that they begin with, one id at least; the token that the search
            begins with is passed over.
    """

    def __init__(
        self,
        model: Transformer,
        prompts: Sequence[Sequence[int]],
        device: torch.device | str = "cpu",
        *,
        max_length: int | None = None,
        begun: bool = False,
    ) -> None:
        super().__init__(model, len(prompts), max_length)
        self.prompts = [prompt[1:] for prompt in prompts] if begun else prompts
        self.firsts: Tensor | None = None
        self.device = torch.device(device)
        if begun:
            self.firsts = torch.tensor([[each[0]] for each in prompts], device=self.device)

    @torch.inference_mode()
    def next_log_probs(self, tokens: Tensor) -> Tensor:
        """See `TokenScorer.next_log_probs`."""
        rows, keep = tokens.reshape(-1, 1), None
        if self.cache.length == 0:
            rows, keep = self._with_prompts(rows if self.firsts is None else self.firsts)
        hidden = self.model.decode(rows, keep=keep, cache=self.cache)
        return self.log_probs(hidden, tokens)

    def _with_prompts(self, bos: Tensor) -> tuple[Tensor, Tensor | None]:
        """BOS and prompt, [B, P], padded before the start so that all texts end together."""
        longest = max(len(prompt) for prompt in self.prompts)
        lengths = torch.tensor([len(prompt) for prompt in self.prompts], device=self.device)
        starts = (longest - lengths).unsqueeze(1)  # places of BOS
        padded = [[0] * (1 + longest - len(prompt)) + list(prompt) for prompt in self.prompts]
        rows = torch.tensor(padded, dtype=torch.long, device=self.device).scatter(1, starts, bos)
        keep = torch.arange(1 + longest, device=self.device) >= starts
        return rows, None if len(set(map(len, self.prompts))) == 1 else keep
