"""Brute force: every output of a toy sentence, scored by the formulas written out once more."""

import itertools
import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Output:
    score: float
    log_prob: float
    tokens: list
    truncated: bool


def every_output(toy, sentence, config, limit, vocab_size=6, allowed=lambda tokens: True):
    """Complete outputs by falling score, then those that the limit cut off.

    Args:
        allowed: says of a whole output whether it may be.
    """
    pad, bos, eos = toy.ids.values()
    letters = [token for token in range(vocab_size) if token not in (pad, bos, eos)]
    found = []
    for length in range(1, limit + 1):
        for body in itertools.product(letters, repeat=length - 1):
            for last in (eos, *letters):
                if (last == eos and length < config.min_length) or (last != eos and length < limit):
                    continue
                tokens = [*body, last]
                if repeats_an_ngram(tokens, config.no_repeat_ngram) or not allowed(tokens):
                    continue
                found.append(judged(toy, sentence, config, tokens, vocab_size))
    return sorted(found, key=lambda output: (output.truncated, -output.score))


def judged(toy, sentence, config, tokens, vocab_size=6):
    own = ranked = 0.0
    covered = [0.0] * (1 + sentence % 3)
    for i, token in enumerate(tokens):
        log_prob = float(toy.log_probs_after(sentence, tokens[:i], vocab_size, None)[token])
        own += log_prob
        ranked += log_prob * (config.repetition_penalty if token in tokens[:i] else 1.0)
        for s, weight in enumerate(toy.attention_of(sentence, tokens[:i]).tolist()):
            covered[s] += weight
    divisor = {
        "none": 1.0,
        "average": len(tokens),
        "gnmt": ((5 + len(tokens)) / 6) ** config.alpha,
    }[config.length_penalty]
    coverage = config.coverage_penalty * sum(math.log(min(weight, 1.0)) for weight in covered)
    truncated = tokens[-1] != toy.ids["eos_id"]
    return Output(ranked / divisor + coverage, own, tokens, truncated)


def repeats_an_ngram(tokens, n):
    grams = [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)] if n else []
    return len(set(grams)) < len(grams)
