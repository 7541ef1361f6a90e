"""Beam search with required token sequences against brute force, and its promise."""

import itertools
from dataclasses import replace

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from decoding.oracle import every_output
from gnomon.decoding import Constraints, SearchConfig, beam_search, contains, essential
from gnomon.decoding.required import RequiredPhrases
from gnomon.errors import RecipeError

LETTERS = (1, 4, 5)
seeds = st.integers(0, 2**31)
phrase = st.lists(st.sampled_from(LETTERS), min_size=1, max_size=3).map(tuple)
phrases = st.lists(phrase, max_size=3).map(tuple)
configs = st.sampled_from(
    [
        SearchConfig(),
        SearchConfig(length_penalty="none"),
        SearchConfig(coverage_penalty=0.4, repetition_penalty=1.4),
        SearchConfig(min_length=4, alpha=-0.6),
    ]
)


def has_all(required):
    return lambda tokens: all(contains(tokens, each) for each in required)


def overlap(required):
    """Whether an end of one phrase can be the beginning of another."""
    return any(
        one[-n:] == other[:n]
        for one, other in itertools.permutations(essential(required), 2)
        for n in range(1, min(len(one), len(other)) + 1)
    )


def num_tokens(required):
    return sum(map(len, essential(required)))


@settings(max_examples=60, deadline=None)
@given(seeds, phrases, configs, st.integers(2, 5))
def test_a_wide_beam_finds_the_best_outputs_that_contain_all(
    toy, sentence, required, config, limit
):
    assume(num_tokens(required) < limit and not overlap(required))
    config = replace(config, beam=700, nbest=4, min_length=min(config.min_length, limit))
    (found,) = beam_search(
        toy.Scorer([sentence]),
        config,
        **toy.ids,
        max_lengths=[limit],
        constraints=[Constraints(required=required)],
    )
    # The last place is kept for the end, also in outputs that the limit cuts off.
    allowed = lambda tokens: has_all(required)(tokens[: limit - 1])  # noqa: E731
    expected = every_output(toy, sentence, config, limit, allowed=allowed)[:4]
    assert [h.tokens for h in found] == [e.tokens for e in expected]
    assert [h.score for h in found] == pytest.approx([e.score for e in expected], rel=1e-5)
    assert [h.log_prob for h in found] == pytest.approx([e.log_prob for e in expected], rel=1e-5)


@settings(max_examples=150, deadline=None)
@given(seeds, phrases, configs, st.integers(2, 5), st.integers(2, 9), st.integers(0, 3))
def test_whatever_the_beam_the_output_contains_all_that_fit(
    toy, sentence, required, config, beam, limit, no_repeat
):
    assume(num_tokens(required) < limit)
    config = replace(config, beam=beam, nbest=beam, no_repeat_ngram=no_repeat)
    assume(no_repeat == 0 or limit < 5)  # or nothing may be left that is allowed
    (found,) = beam_search(
        toy.Scorer([sentence]),
        replace(config, min_length=1),
        **toy.ids,
        max_lengths=[limit],
        constraints=[Constraints(required=required)],
    )
    assert found
    assert all(has_all(required)(hypothesis.tokens) for hypothesis in found)
    assert len({tuple(hypothesis.tokens) for hypothesis in found}) == len(found)


@settings(max_examples=60, deadline=None)
@given(st.data(), configs, st.integers(2, 5))
def test_alone_equals_in_any_batch_and_without_phrases_it_is_plain(toy, data, config, beam):
    config = replace(config, beam=beam, nbest=2)
    sentences = data.draw(st.lists(seeds, min_size=1, max_size=5))
    wanted = [data.draw(phrases) for _ in sentences]
    limits = [max(4, num_tokens(each) + 1 + data.draw(st.integers(0, 4))) for each in wanted]

    def search(numbers, constraints):
        return beam_search(
            toy.Scorer([sentences[i] for i in numbers]),
            config,
            **toy.ids,
            max_lengths=[limits[i] for i in numbers],
            constraints=constraints,
        )

    everything = [Constraints(required=each) for each in wanted]
    together = search(range(len(sentences)), everything)
    for i, found in enumerate(together):
        assert search([i], [everything[i]]) == [found]
        if not wanted[i]:
            assert search([i], None) == [found]


def test_a_phrase_is_put_where_the_model_likes_it_best_not_where_it_must_be(toy):
    """With banks the best place wins; a search that only keeps it possible takes the last."""
    eos = toy.ids["eos_id"]

    class Script(toy.Scorer):
        def after(self, sentence, prefix):
            likes = {(): 4, (4,): 1, (4, 5): 1, (4, 1): eos, (4, 5, 1): eos}
            log_probs = torch.full((6,), -12.0)
            log_probs[likes.get(tuple(prefix), 1)] = -0.01
            if tuple(prefix) == (4,):
                log_probs[5] = -2.0
            return log_probs

    (found,) = beam_search(
        Script([0]),
        SearchConfig(beam=3),
        **toy.ids,
        max_lengths=[12],
        constraints=[Constraints(required=((5,),))],
    )
    assert found[0].tokens == [4, 5, 1, eos]


def test_what_cannot_be_is_refused(toy):
    constraints = [Constraints(required=((4, 5),))]
    with pytest.raises(RecipeError, match="beam"):
        beam_search(
            toy.Scorer([0]),
            SearchConfig(beam=1),
            **toy.ids,
            max_lengths=[9],
            constraints=constraints,
        )
    with pytest.raises(RecipeError, match="fit"):
        beam_search(
            toy.Scorer([0]), SearchConfig(), **toy.ids, max_lengths=[2], constraints=constraints
        )


def test_phrases_within_phrases_and_repeated_ones_count_once():
    assert essential([(1, 2), (2,), (1, 2), (), (3, 1, 2)]) == [(3, 1, 2)]


@settings(max_examples=100, deadline=None)
@given(phrases.filter(bool), st.lists(st.sampled_from((*LETTERS, 7)), max_size=9))
def test_progress_follows_the_text(required, tokens):
    state = RequiredPhrases([required], 0, torch.device("cpu"))
    for token in tokens:
        state.advance(torch.zeros(1, 1, dtype=torch.long), torch.tensor([[token]]))
    wanted = essential(required)
    assert state.met[0, 0].tolist() == [contains(tokens, each) for each in wanted]
    missing = [each for each in wanted if not contains(tokens, each)]
    started = [
        max(n for n in range(len(each)) if tuple(tokens[len(tokens) - n :]) == each[:n])
        for each in missing
    ]
    assert int(state.needed()) == sum(map(len, missing)) - max(started, default=0)
