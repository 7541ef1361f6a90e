"""A scorer whose log-probabilities depend on nothing but the sentence and the whole prefix."""

import hashlib
from types import SimpleNamespace

import pytest
import torch

PAD, BOS, EOS = 0, 2, 3


def log_probs_after(sentence, prefix, vocab_size, levels, spread=1.5):
    """[V] log-probabilities, pseudo-random in (sentence, prefix).

    Few `levels` give many ties; a large `spread` gives nearly certain tokens.
    """
    digest = hashlib.sha256(repr((sentence, tuple(prefix))).encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))
    logits = torch.randn(vocab_size, generator=generator) * spread
    if levels:
        logits = (logits * levels).round() / levels
    return logits.log_softmax(-1)


def attention_of(sentence, prefix):
    """[S] attention weights, pseudo-random in (sentence, prefix), over 1 to 3 source tokens."""
    digest = hashlib.sha256(repr(("attention", sentence, tuple(prefix))).encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))
    return torch.randn(1 + sentence % 3, generator=generator).softmax(-1)


class TableScorer:
    def __init__(self, sentences, vocab_size=6, levels=None, spread=1.5):
        self.vocab_size, self.levels, self.spread = vocab_size, levels, spread
        self.sentences = list(sentences)
        self.widest = max((1 + sentence % 3 for sentence in self.sentences), default=0)
        self.prefixes = [[()] for _ in self.sentences]
        self.device = torch.device("cpu")
        self.num_rows_scored = 0
        self.num_steps = 0

    @property
    def num_sentences(self):
        return len(self.sentences)

    def next_log_probs(self, tokens):
        assert tokens.shape == (len(self.sentences), len(self.prefixes[0]))
        self.num_rows_scored += tokens.numel()
        self.num_steps += 1
        self.prefixes = [
            [(*prefix, token) for prefix, token in zip(prefixes, row, strict=True)]
            for prefixes, row in zip(self.prefixes, tokens.tolist(), strict=True)
        ]
        return torch.stack(
            [
                torch.stack([self.after(sentence, prefix[1:]) for prefix in prefixes])
                for sentence, prefixes in zip(self.sentences, self.prefixes, strict=True)
            ]
        )

    def after(self, sentence, prefix):
        return log_probs_after(sentence, prefix, self.vocab_size, self.levels, self.spread)

    def attention(self):
        widest = self.widest
        weights = torch.zeros(len(self.sentences), len(self.prefixes[0]), widest)
        keep = torch.zeros(len(self.sentences), widest, dtype=torch.bool)
        for b, (sentence, prefixes) in enumerate(zip(self.sentences, self.prefixes, strict=True)):
            keep[b, : 1 + sentence % 3] = True
            for row, prefix in zip(weights[b], prefixes, strict=True):
                row[: 1 + sentence % 3] = attention_of(sentence, prefix[1:])
        return weights, keep

    def select(self, sentences, parents):
        if sentences is not None:
            assert sentences.tolist() == sorted(set(sentences.tolist()))
            self.sentences = [self.sentences[i] for i in sentences.tolist()]
            self.prefixes = [self.prefixes[i] for i in sentences.tolist()]
        self.prefixes = [
            [prefixes[parent] for parent in row]
            for prefixes, row in zip(self.prefixes, parents.tolist(), strict=True)
        ]


@pytest.fixture(scope="session")
def toy():
    return SimpleNamespace(
        Scorer=TableScorer,
        log_probs_after=log_probs_after,
        attention_of=attention_of,
        ids={"pad_id": PAD, "bos_id": BOS, "eos_id": EOS},
    )
