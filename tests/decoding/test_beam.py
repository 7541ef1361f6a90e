"""Beam search against brute force, alone against in a batch, and at its limits."""

import dataclasses
import itertools
import math
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gnomon.decoding import SearchConfig, beam_search
from gnomon.decoding.rules import SearchRules
from gnomon.errors import ModelError, RecipeError

PENALTIES = [
    SearchConfig(length_penalty="none"),
    SearchConfig(length_penalty="average"),
    *(SearchConfig(length_penalty="gnmt", alpha=alpha) for alpha in (-2.0, -0.6, 0.0, 0.6, 1.5)),
]
configs = st.sampled_from(PENALTIES)
seeds = st.integers(0, 2**31)


def approx(values):
    """Equal but for the rounding of a few fp32 additions."""
    return pytest.approx(values, rel=1e-6, abs=1e-6)


def with_(config, **changes):
    return dataclasses.replace(config, **changes)


def every_output(toy, sentence, config, limit, vocab_size, levels=None):
    """(score, log_prob, tokens) of every complete output, best first, and of every cut-off one."""
    pad, bos, eos = toy.ids.values()
    letters = [token for token in range(vocab_size) if token not in (pad, bos, eos)]
    complete, truncated = [], []
    for length in range(1, limit + 1):
        for body in itertools.product(letters, repeat=length - 1):
            for last in (eos, *letters):
                if last == eos and length < config.min_length:
                    continue
                if last != eos and length < limit:
                    continue
                tokens = [*body, last]
                log_prob = sum(
                    float(toy.log_probs_after(sentence, tokens[:i], vocab_size, levels)[token])
                    for i, token in enumerate(tokens)
                )
                # The formula of SearchConfig's docstring, written out once more.
                divisor = {
                    "none": 1.0,
                    "average": len(tokens),
                    "gnmt": ((5 + len(tokens)) / 6) ** config.alpha,
                }[config.length_penalty]
                (complete if last == eos else truncated).append(
                    (log_prob / divisor, log_prob, tokens)
                )
    return sorted(complete, reverse=True), sorted(truncated, reverse=True)


class TestAgainstBruteForce:
    @pytest.mark.parametrize("config", PENALTIES, ids=lambda c: f"{c.length_penalty}{c.alpha}")
    @pytest.mark.parametrize("limit", [1, 2, 4])
    @pytest.mark.parametrize("nbest", [1, 3, 200])
    def test_a_wide_beam_finds_the_best_outputs_in_order(self, toy, config, limit, nbest):
        config = with_(config, beam=200, nbest=nbest)
        for sentence in range(6):
            (found,) = beam_search(toy.Scorer([sentence]), config, **toy.ids, max_lengths=[limit])
            complete, truncated = every_output(toy, sentence, config, limit, 6)
            expected = [*complete, *truncated][:nbest]
            assert [hypothesis.tokens for hypothesis in found] == [e[2] for e in expected]
            assert [h.truncated for h in found] == [e[2][-1] != toy.ids["eos_id"] for e in expected]
            assert [h.score for h in found] == approx([e[0] for e in expected])
            assert [h.log_prob for h in found] == approx([e[1] for e in expected])

    @settings(max_examples=60, deadline=None)
    @given(seeds, configs, st.integers(1, 4), st.integers(1, 5), st.sampled_from([1, 2, None]))
    def test_scores_stay_the_best_under_ties_and_minimum_lengths(
        self, toy, sentence, config, limit, min_length, levels
    ):
        config = with_(config, beam=200, nbest=5, min_length=min_length)
        scorer = toy.Scorer([sentence], levels=levels)
        (found,) = beam_search(scorer, config, **toy.ids, max_lengths=[limit])
        complete, truncated = every_output(toy, sentence, config, limit, 6, levels)
        expected = [*complete, *truncated][:5]
        assert [h.score for h in found] == approx([e[0] for e in expected])
        assert len({tuple(h.tokens) for h in found}) == len(found)


class Script:
    """Scores one sentence by a table from prefix to {token: probability}; else EOS is certain."""

    device = torch.device("cpu")
    num_sentences = 1

    def __init__(self, table, eos):
        self.table, self.eos = table, eos
        self.prefixes = [()]

    def next_log_probs(self, tokens):
        self.prefixes = [(*p, t) for p, t in zip(self.prefixes, tokens[0].tolist(), strict=True)]
        probabilities = torch.zeros(1, len(self.prefixes), 6)
        for row, prefix in zip(probabilities[0], self.prefixes, strict=True):
            for token, probability in self.table.get(prefix[1:], {self.eos: 1.0}).items():
                row[token] = probability
        return probabilities.log()

    def select(self, sentences, parents):
        self.prefixes = [self.prefixes[parent] for parent in parents[0].tolist()]


class TestStopRule:
    """Brute force on short outputs cannot tell when a search stops: these can."""

    @settings(max_examples=100, deadline=None)
    @given(seeds, configs, st.integers(2, 5), st.integers(1, 3), st.sampled_from([3.0, 8.0, 20.0]))
    def test_stopping_never_changes_what_is_found(self, toy, sentence, config, beam, nbest, spread):
        config = with_(config, beam=beam, nbest=min(nbest, beam))

        def search():
            scorer = toy.Scorer([sentence], spread=spread)
            return beam_search(scorer, config, **toy.ids, max_lengths=[25])

        never_stop = torch.full((1,), math.inf)
        with mock.patch.object(SearchRules, "best_future_score", lambda *_: never_stop):
            to_the_limit = search()
        assert search() == to_the_limit

    def test_a_long_output_can_still_win_under_a_positive_alpha(self, toy):
        """EOS at once scores ln 0.6 / 1; three tokens later, ln 0.4 / (9/6)^2 is better."""
        eos = toy.ids["eos_id"]
        table = {(): {eos: 0.6, 5: 0.4}, (5,): {5: 1.0}, (5, 5): {5: 1.0}}
        config = SearchConfig(beam=2, alpha=2.0)
        ((found,),) = beam_search(Script(table, eos), config, **toy.ids, max_lengths=[50])
        assert found.tokens == [5, 5, 5, eos]
        assert found.score == approx(math.log(0.4) / (9 / 6) ** 2)

    def test_the_next_token_can_still_win_under_a_negative_alpha(self, toy):
        """At the limit nothing could win any more, but the next token still does."""
        eos = toy.ids["eos_id"]
        config = SearchConfig(beam=2, alpha=-2.0)
        table = {(): {eos: 0.1, 5: 0.9}}
        ((found,),) = beam_search(Script(table, eos), config, **toy.ids, max_lengths=[50])
        assert found.tokens == [5, eos]
        assert found.score == approx(math.log(0.9) * (7 / 6) ** 2)

    @pytest.mark.parametrize("config", PENALTIES, ids=lambda c: f"{c.length_penalty}{c.alpha}")
    def test_it_does_end_searches_early(self, toy, config):
        config = with_(config, beam=3)
        scorer = toy.Scorer([0])
        beam_search(scorer, config, **toy.ids, max_lengths=[200])
        assert scorer.num_steps < 100


class TestBatches:
    @settings(max_examples=60, deadline=None)
    @given(st.data(), configs, st.integers(1, 6), st.integers(1, 3), st.sampled_from([1, None]))
    def test_alone_equals_in_any_batch_and_order(self, toy, data, config, beam, nbest, levels):
        config = with_(config, beam=beam, nbest=min(nbest, beam))
        sentences = data.draw(st.lists(seeds, min_size=1, max_size=6))
        limits = [data.draw(st.integers(1, 7)) for _ in sentences]
        together = beam_search(
            toy.Scorer(sentences, levels=levels), config, **toy.ids, max_lengths=limits
        )
        for sentence, limit, found in zip(sentences, limits, together, strict=True):
            alone = beam_search(
                toy.Scorer([sentence], levels=levels), config, **toy.ids, max_lengths=[limit]
            )
            assert alone == [found]

    def test_finished_sentences_leave_the_batch(self, toy):
        limits = [1, 2, 30, 3]
        config = SearchConfig(beam=3)
        together, one_by_one = toy.Scorer(range(4)), [toy.Scorer([i]) for i in range(4)]
        beam_search(together, config, **toy.ids, max_lengths=limits)
        for scorer, limit in zip(one_by_one, limits, strict=True):
            beam_search(scorer, config, **toy.ids, max_lengths=[limit])
        assert together.num_rows_scored == sum(s.num_rows_scored for s in one_by_one)

    def test_an_empty_batch_gives_an_empty_list(self, toy):
        assert beam_search(toy.Scorer([]), SearchConfig(), **toy.ids, max_lengths=[]) == []


class TestHypotheses:
    @settings(max_examples=60, deadline=None)
    @given(seeds, configs, st.integers(1, 6), st.integers(1, 6), st.integers(1, 4))
    def test_each_is_what_it_says(self, toy, sentence, config, beam, limit, min_length):
        config = with_(config, beam=beam, nbest=beam, min_length=min_length)
        (found,) = beam_search(toy.Scorer([sentence]), config, **toy.ids, max_lengths=[limit])
        pad, bos, eos = toy.ids.values()
        assert 1 <= len(found) <= beam
        assert len({tuple(h.tokens) for h in found}) == len(found)
        assert found == sorted(found, key=lambda h: (h.truncated, -h.score))
        for hypothesis in found:
            tokens = hypothesis.tokens
            assert pad not in tokens and bos not in tokens and eos not in tokens[:-1]
            assert hypothesis.truncated == (tokens[-1] != eos)
            assert len(tokens) == limit if hypothesis.truncated else len(tokens) <= limit
            assert hypothesis.truncated or len(tokens) >= min_length
            log_prob = sum(
                float(toy.log_probs_after(sentence, tokens[:i], 6, None)[token])
                for i, token in enumerate(tokens)
            )
            assert hypothesis.log_prob == approx(log_prob)
            score = log_prob / config.penalty(len(tokens))
            assert hypothesis.score == approx(score)

    def test_a_complete_one_ranks_before_a_truncated_one(self, toy):
        """However good its score, an output that never ended is the last resort."""
        config = SearchConfig(beam=200, nbest=200, length_penalty="none")
        (found,) = beam_search(toy.Scorer([0]), config, **toy.ids, max_lengths=[3])
        truncated = [h.truncated for h in found]
        assert truncated == sorted(truncated) and len(set(truncated)) == 2
        assert found[-1].truncated
        worst_complete = min(h.score for h in found if not h.truncated)
        assert max(h.score for h in found if h.truncated) > worst_complete

    def test_without_a_possible_output_it_says_so(self, toy):
        class Mute(toy.Scorer):
            def after(self, sentence, prefix):
                return torch.full((6,), -math.inf)

        with pytest.raises(ModelError, match="probability zero"):
            beam_search(Mute([0]), SearchConfig(), **toy.ids, max_lengths=[4])


class TestBadInput:
    @pytest.mark.parametrize("bad", [math.nan, -math.nan, 1.0])
    @pytest.mark.parametrize("place", [1, 4, 5])
    def test_scores_that_are_no_log_probabilities_stop_the_search(self, toy, bad, place):
        class Broken(toy.Scorer):
            def after(self, sentence, prefix):
                log_probs = super().after(sentence, prefix).clone()
                if sentence == 1 and len(prefix) == 1:
                    log_probs[place] = bad
                return log_probs

        with pytest.raises(ModelError, match="not log-probabilities"):
            beam_search(Broken([0, 1]), SearchConfig(), **toy.ids, max_lengths=[9, 9])

    def test_limits_must_fit_the_sentences(self, toy):
        with pytest.raises(ModelError, match="one length limit per sentence"):
            beam_search(toy.Scorer([0]), SearchConfig(), **toy.ids, max_lengths=[3, 3])
        with pytest.raises(ModelError, match="at least 1"):
            beam_search(toy.Scorer([0]), SearchConfig(), **toy.ids, max_lengths=[0])

    def test_a_config_with_problems_is_refused(self, toy):
        with pytest.raises(RecipeError, match="nbest"):
            beam_search(toy.Scorer([0]), SearchConfig(beam=1, nbest=2), **toy.ids, max_lengths=[3])
