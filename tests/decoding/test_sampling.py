"""Samples follow the distribution they say, and depend on seed, key and number alone."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gnomon.decoding import Constraints, SearchConfig, sample
from gnomon.decoding.sampling import _BLOCK, _numbers, draw
from gnomon.errors import ModelError, RecipeError

FILTERS = {
    "plain": SearchConfig(sample=True),
    "cold": SearchConfig(sample=True, temperature=0.5),
    "hot": SearchConfig(sample=True, temperature=3.0),
    "top-k": SearchConfig(sample=True, top_k=3),
    "top-p": SearchConfig(sample=True, top_p=0.7),
    "min-p": SearchConfig(sample=True, min_p=0.3),
    "all": SearchConfig(sample=True, temperature=1.5, top_k=5, top_p=0.9, min_p=0.1),
}
PROBABILITIES = [0.4, 0.25, 0.05, 0.15, 0.1, 0.05]


def p_value(observed, expected):
    """Of Pearson's chi-square test."""
    statistic = sum((o - e) ** 2 / e for o, e in zip(observed, expected, strict=True))
    halves = torch.tensor([(len(observed) - 1) / 2, statistic / 2], dtype=torch.float64)
    return float(torch.special.gammaincc(*halves))


def filtered(probabilities, config):
    """The definition in SearchConfig, word for word."""
    tempered = [p ** (1 / config.temperature) for p in probabilities]
    tempered = [p / sum(tempered) for p in tempered]
    ranked = sorted(range(len(tempered)), key=lambda i: (-tempered[i], i))
    passing = []
    for rank, token in enumerate(ranked):
        before = sum(tempered[other] for other in ranked[:rank])
        if (
            (config.top_k == 0 or rank < config.top_k)
            and before < config.top_p
            and tempered[token] >= config.min_p * tempered[ranked[0]]
        ):
            passing.append(token)
    mass = sum(tempered[token] for token in passing)
    return {token: tempered[token] / mass for token in passing}


@pytest.mark.parametrize("name", FILTERS)
def test_draws_follow_the_filtered_distribution(name):
    n = 20_000
    log_probs = torch.tensor(PROBABILITIES).log().view(1, 1, -1)
    numbers = torch.rand(1, n, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    parents = torch.zeros(1, n, dtype=torch.long)
    counts = Counter(draw(log_probs, parents, numbers, FILTERS[name])[0].tolist())
    expected = filtered(PROBABILITIES, FILTERS[name])
    assert set(counts) == set(expected)
    observed = [counts[token] for token in expected]
    assert p_value(observed, [n * p for p in expected.values()]) > 0.001


@pytest.mark.parametrize("temperature", [5e-324, 1e-300, 1e-9])
def test_the_lowest_temperatures_draw_the_most_probable_token(temperature):
    config = SearchConfig(sample=True, temperature=temperature)
    log_probs = torch.tensor(PROBABILITIES).log().view(1, 1, -1)
    numbers = torch.linspace(0, 0.999, 9, dtype=torch.float64).view(1, 9)
    drawn = draw(log_probs, torch.zeros(1, 9, dtype=torch.long), numbers, config)
    assert drawn.tolist() == [[0] * 9]


def test_more_tokens_than_there_are_is_all_of_them():
    log_probs = torch.tensor(PROBABILITIES).log().view(1, 1, -1)
    numbers = torch.rand(1, 99, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    parents = torch.zeros(1, 99, dtype=torch.long)
    every, some = (
        draw(log_probs, parents, numbers, SearchConfig(sample=True, top_k=k)) for k in (10**20, 0)
    )
    assert every.equal(some)


def test_numbers_of_later_places_are_those_of_one_long_series():
    found = torch.cat([_numbers(5, [7], 2, start) for start in range(0, 4 * _BLOCK, _BLOCK)], -1)
    for j in range(2):
        philox = np.random.Philox(key=[5, 7], counter=[0, 0, 0, j])
        series = np.random.Generator(philox).random(4 * _BLOCK)
        assert found[0, j].tolist() == series.tolist()


def test_whole_outputs_follow_the_model(toy):
    """All outputs of up to three tokens of one toy sentence, counted over many keys."""
    n = 4000
    scorer = toy.Scorer([3] * 20)
    config = SearchConfig(sample=True, nbest=n // 20, seed=1)
    found = sample(scorer, config, **toy.ids, max_lengths=[3] * 20, keys=range(20))
    counts = Counter(tuple(h.tokens) for hypotheses in found for h in hypotheses)
    pad, bos, eos = toy.ids.values()
    expected = {}

    def walk(prefix, probability):
        if len(prefix) == 3 or (prefix and prefix[-1] == eos):
            expected[tuple(prefix)] = probability
            return
        allowed = toy.log_probs_after(3, prefix, 6, None).exp().tolist()
        allowed[pad] = allowed[bos] = 0.0
        for token, p in enumerate(allowed):
            if p:
                walk([*prefix, token], probability * p / sum(allowed))

    walk([], 1.0)
    assert set(counts) <= set(expected)
    common = [tokens for tokens, p in expected.items() if p * n >= 5]
    observed = [counts[tokens] for tokens in common]
    wanted = [expected[tokens] * n for tokens in common]
    observed.append(n - sum(observed))
    wanted.append(n - sum(wanted))
    assert p_value(observed, wanted) > 0.001


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from(list(FILTERS.values())), st.integers(1, 4), st.booleans())
def test_neighbours_order_and_nbest_change_nothing(toy, data, config, nbest, steered):
    if steered:
        config = replace(config, repetition_penalty=1.5, no_repeat_ngram=2, min_length=2)
    sentences = data.draw(st.lists(st.integers(0, 2**31), min_size=1, max_size=5))
    keys = data.draw(st.permutations(range(len(sentences))))
    limits = [data.draw(st.integers(2, 7)) for _ in sentences]

    def search(numbers, n):
        return sample(
            toy.Scorer([sentences[i] for i in numbers]),
            replace(config, nbest=n),
            **toy.ids,
            max_lengths=[limits[i] for i in numbers],
            keys=[keys[i] for i in numbers],
        )

    together = search(range(len(sentences)), nbest)
    for i, found in enumerate(together):
        assert search([i], nbest) == [found]
        assert search([i], nbest + 2)[0][:nbest] == found


def test_seed_key_and_number_each_matter(toy):
    config = SearchConfig(sample=True, nbest=30, temperature=2.0)

    def outputs(config, key):
        (found,) = sample(toy.Scorer([7]), config, **toy.ids, max_lengths=[9], keys=[key])
        return [tuple(h.tokens) for h in found]

    first = outputs(config, 0)
    assert len(set(first)) > 10
    assert outputs(config, 0) == first
    assert outputs(config, 1) != first
    assert outputs(replace(config, seed=1), 0) != first


def test_the_log_probability_is_the_models_own(toy):
    config = SearchConfig(sample=True, nbest=5, temperature=2.0, top_k=3, repetition_penalty=1.3)
    (found,) = sample(toy.Scorer([7]), config, **toy.ids, max_lengths=[9], keys=[0])
    for hypothesis in found:
        own = sum(
            float(toy.log_probs_after(7, hypothesis.tokens[:i], 6, None)[token])
            for i, token in enumerate(hypothesis.tokens)
        )
        assert hypothesis.log_prob == pytest.approx(own, rel=1e-5)
        assert hypothesis.score == pytest.approx(own / config.penalty(len(hypothesis.tokens)))
        assert hypothesis.truncated == (hypothesis.tokens[-1] != toy.ids["eos_id"])


def test_required_phrases_are_refused(toy):
    with pytest.raises(RecipeError, match="required"):
        sample(
            toy.Scorer([0]),
            SearchConfig(sample=True),
            **toy.ids,
            max_lengths=[9],
            keys=[0],
            constraints=[Constraints(required=((4,),))],
        )


def test_nan_stops_the_sampling(toy):
    class Broken(toy.Scorer):
        def after(self, sentence, prefix):
            log_probs = super().after(sentence, prefix).clone()
            log_probs[4] = math.nan
            return log_probs

    with pytest.raises(ModelError, match="not log-probabilities"):
        sample(Broken([0]), SearchConfig(sample=True), **toy.ids, max_lengths=[9], keys=[0])
