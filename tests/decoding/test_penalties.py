"""Coverage, repetition and n-gram rules against brute force, alone against in a batch."""

import math
from dataclasses import replace
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from decoding.oracle import every_output
from gnomon.decoding import SearchConfig, beam_search, greedy_search
from gnomon.decoding.penalties import forbid_repeated_ngrams
from gnomon.decoding.rules import SearchRules
from gnomon.errors import ModelError

OPTIONS = {
    "coverage": SearchConfig(coverage_penalty=0.7),
    "repetition": SearchConfig(repetition_penalty=1.8),
    "fewer words": SearchConfig(repetition_penalty=0.4),
    "unigrams": SearchConfig(no_repeat_ngram=1),
    "bigrams": SearchConfig(no_repeat_ngram=2, length_penalty="none"),
    "all": SearchConfig(
        coverage_penalty=0.3, repetition_penalty=1.3, no_repeat_ngram=3, min_length=3, alpha=-0.5
    ),
}
options = st.sampled_from(list(OPTIONS.values()))
seeds = st.integers(0, 2**31)


def approx(values):
    return pytest.approx(values, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("limit", [1, 3, 5])
def test_a_wide_beam_finds_the_best_outputs(toy, name, limit):
    config = replace(OPTIONS[name], beam=600, nbest=5)
    for sentence in range(6):
        if config.min_length > limit:
            continue
        (found,) = beam_search(toy.Scorer([sentence]), config, **toy.ids, max_lengths=[limit])
        expected = every_output(toy, sentence, config, limit)[:5]
        assert [h.tokens for h in found] == [e.tokens for e in expected]
        assert [h.score for h in found] == approx([e.score for e in expected])
        assert [h.log_prob for h in found] == approx([e.log_prob for e in expected])
        assert [h.truncated for h in found] == [e.truncated for e in expected]


@pytest.mark.parametrize("name", OPTIONS)
def test_each_option_changes_the_output(toy, name):
    # Repetition needs long outputs to show, coverage short ones.
    min_length = {"coverage": 1, "unigrams": 3}.get(name, 6)
    given = replace(OPTIONS[name], beam=4, min_length=min_length)
    names = ("length_penalty", "alpha", "beam", "min_length")
    plain = SearchConfig(**{field: getattr(given, field) for field in names})
    sentences = list(range(40))

    def outputs(config):
        found = beam_search(toy.Scorer(sentences), config, **toy.ids, max_lengths=[9] * 40)
        return [hypotheses[0].tokens for hypotheses in found]

    assert outputs(plain) != outputs(given)


@settings(max_examples=60, deadline=None)
@given(st.data(), options, st.integers(1, 5), st.integers(1, 3))
def test_alone_equals_in_any_batch(toy, data, config, beam, nbest):
    config = replace(config, beam=beam, nbest=min(nbest, beam))
    sentences = data.draw(st.lists(seeds, min_size=1, max_size=5))
    limits = [data.draw(st.integers(3, 8)) for _ in sentences]
    together = beam_search(toy.Scorer(sentences), config, **toy.ids, max_lengths=limits)
    for sentence, limit, found in zip(sentences, limits, together, strict=True):
        alone = beam_search(toy.Scorer([sentence]), config, **toy.ids, max_lengths=[limit])
        assert alone == [found]


@settings(max_examples=60, deadline=None)
@given(seeds, options, st.integers(2, 5), st.sampled_from([3.0, 8.0]))
def test_stopping_never_changes_what_is_found(toy, sentence, config, beam, spread):
    config = replace(config, beam=beam, nbest=2)

    def search():
        scorer = toy.Scorer([sentence], vocab_size=30, spread=spread)
        return beam_search(scorer, config, **toy.ids, max_lengths=[20])

    never_stop = torch.full((1,), math.inf)
    with mock.patch.object(SearchRules, "best_future_score", lambda *_: never_stop):
        to_the_limit = search()
    assert search() == to_the_limit


@settings(max_examples=60, deadline=None)
@given(st.lists(seeds, min_size=1, max_size=4), options)
def test_greedy_equals_a_beam_of_one(toy, sentences, config):
    config = replace(config, beam=1, coverage_penalty=0.0)
    limits = [7] * len(sentences)
    greedy = greedy_search(toy.Scorer(sentences), config, **toy.ids, max_lengths=limits)
    beam = beam_search(toy.Scorer(sentences), config, **toy.ids, max_lengths=limits)
    assert [[hypothesis] for hypothesis in greedy] == beam


def test_a_token_that_completes_a_new_and_an_old_ngram_is_forbidden():
    log_probs = torch.zeros(1, 1, 9)
    history = torch.tensor([[[4, 5, 6, 5, 4]]])  # after 4: 5 repeats (4, 5); (5, 6) does not matter
    forbid_repeated_ngrams(log_probs, history, 2, torch.ones(1, 1, dtype=torch.bool))
    assert log_probs[0, 0].isinf().nonzero().flatten().tolist() == [5]


def test_coverage_needs_attention(toy):
    blind = mock.Mock(spec=["num_sentences", "device"], num_sentences=1, device=torch.device("cpu"))
    with pytest.raises(ModelError, match="attention"):
        beam_search(blind, SearchConfig(coverage_penalty=0.1), **toy.ids, max_lengths=[3])
