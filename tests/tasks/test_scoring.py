"""Scores of given pairs: the search's own, independent of neighbours, defined for every pair."""

from __future__ import annotations

import copy
import math
import random

import pytest
import torch

import gnomon
from digits import TrainedRun
from gnomon.errors import DataError, ModelError
from gnomon.tasks import Translator
from gnomon.tasks.likelihood import Pair, summed_nll
from two_times_rule import assert_two_times


def exact_log_probs(translator: Translator, source: str, target: str) -> torch.Tensor:
    """The same in float64 by the definition, one token after another, without batches."""
    model = copy.deepcopy(translator.model).double().eval()
    ids = translator.tokenizers.source.encode([source])[0]
    goal = [*translator.tokenizers.target.encode([target])[0], 3]
    found = []
    with torch.no_grad():
        for place, token in enumerate(goal):
            logits = model(torch.tensor([[*ids, 3]]), torch.tensor([[2, *goal[:place]]]))
            found.append(logits[0, -1].log_softmax(-1)[token])
    return torch.stack(found)


def test_score_of_a_translation_is_what_the_search_reported(trained_run: TrainedRun) -> None:
    translator = gnomon.load(trained_run.path)
    sources = trained_run.sources[:12]
    found = translator.translate(sources)
    scores = translator.score(sources, [translation.text for translation in found])
    for source, translation, score in zip(sources, found, scores, strict=True):
        assert not translation.truncated
        assert score.num_tokens == translation.num_tokens
        assert score.log_prob is not None
        exact = exact_log_probs(translator, source, translation.text).sum()
        assert_two_times(
            torch.tensor(score.log_prob, dtype=torch.float32),
            torch.tensor(translation.log_prob, dtype=torch.float32),
            exact,
            source,
            scale=float(score.num_tokens),
        )


def test_each_token_has_its_piece_and_log_probability(trained_run: TrainedRun) -> None:
    translator = gnomon.load(trained_run.path)
    (score,) = translator.score(["123"], ["32 x"])
    assert score.pieces[:2] == ("3", "2")
    assert score.pieces[-1] == "</s>"
    exact = exact_log_probs(translator, "123", "32 x")
    assert len(score.token_log_probs) == len(exact) == score.num_tokens
    assert score.token_log_probs == pytest.approx(exact.tolist(), rel=1e-4)
    assert score.log_prob == pytest.approx(sum(score.token_log_probs))
    assert score.mean == pytest.approx(score.log_prob / score.num_tokens)
    assert score.perplexity == pytest.approx(math.exp(-score.mean))


def test_scores_do_not_depend_on_neighbours(trained_run: TrainedRun) -> None:
    translator = gnomon.load(trained_run.path)
    sources = trained_run.sources[:30]
    targets = [source[::-1] + "12" * (place % 3) for place, source in enumerate(sources)]
    together = translator.score(sources, targets)
    order = list(range(30))
    random.Random(1).shuffle(order)
    other = translator.score(
        [sources[i] for i in order], [targets[i] for i in order], batch_tokens=40
    )
    for place, i in enumerate(order):
        assert other[place].token_log_probs == pytest.approx(
            together[i].token_log_probs, rel=1e-4, abs=1e-5
        )
        assert other[place].pieces == together[i].pieces


def test_blank_sides_are_defined(trained_run: TrainedRun) -> None:
    translator = gnomon.load(trained_run.path)
    both, no_source, no_target = translator.score(["", " \t", "12"], [" ", "3", ""])
    assert (both.log_prob, both.num_tokens, both.reason) == (0.0, 0, None)
    assert no_source.log_prob is None
    assert "blank" in str(no_source.reason)
    assert (no_target.num_tokens, no_target.pieces) == (1, ("</s>",))
    assert no_target.log_prob == pytest.approx(exact_log_probs(translator, "12", "").item())
    assert translator.score([], []) == []
    with pytest.raises(DataError, match="2 sources, 1 targets"):
        translator.score(["1", "2"], ["1"])


def test_what_learned_positions_do_not_reach_has_no_score(
    trained_run: TrainedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    translator = gnomon.load(trained_run.path)
    monkeypatch.setattr(type(translator.model.config), "max_positions", lambda self: 5)
    fits, long_source, long_target, last = translator.score(
        ["1234", "12345", "1", "1"], ["1234", "1", "123456", "12345"]
    )
    assert fits.log_prob is not None
    assert long_source.log_prob is None
    assert "6 source and 2 target tokens" in str(long_source.reason)
    assert long_target.log_prob is None
    assert last.log_prob is None
    assert translator.score(["1234"], ["1234"])[0].log_prob == pytest.approx(fits.log_prob)


def test_a_diverged_model_is_an_error(trained_run: TrainedRun) -> None:
    translator = gnomon.load(trained_run.path)
    with torch.no_grad():
        next(translator.model.parameters()).fill_(float("nan"))
    with pytest.raises(ModelError, match="NaN"):
        translator.score(["1"], ["1"])


def test_training_mode_comes_back(trained_run: TrainedRun) -> None:
    translator = gnomon.load(trained_run.path)
    translator.model.train()
    translator.score(["1"], ["1"])
    assert translator.model.training


def test_an_ensemble_is_scored_as_it_translates(trained_run: TrainedRun) -> None:
    checkpoints = sorted((trained_run.path / "checkpoints").glob("step-*"))
    together = gnomon.load(checkpoints[0], ensemble=[checkpoints[-1]])
    sources = trained_run.sources[:6]
    found = together.translate(sources)
    scores = together.score(sources, [translation.text for translation in found])
    alone = gnomon.load(checkpoints[0]).score(sources, [item.text for item in found])
    for translation, score, other in zip(found, scores, alone, strict=True):
        assert score.log_prob == pytest.approx(translation.log_prob, rel=1e-4)
        assert score.log_prob != pytest.approx(other.log_prob, rel=1e-4)


def test_text_is_read_as_it_is_translated(trained_run: TrainedRun) -> None:
    """A control character or line break is a blank, in every figure taken of a pair."""
    translator = gnomon.load(trained_run.path)
    plain, dirty = ["1 2", ""], ["1\u20282", "\x07"]
    assert summed_nll(translator, dirty, ["1\n2", ""], 64) == summed_nll(
        translator, plain, ["1 2", ""], 64
    )
    assert translator.score(dirty, dirty) == translator.score(plain, plain)
    assert translator.align(dirty, dirty) == translator.align(plain, plain)


def test_a_pair_longer_than_any_in_training_is_scored_and_told(trained_run: TrainedRun) -> None:
    translator = gnomon.load(trained_run.path)
    longest = translator.longest_source
    assert longest is not None
    assert translator.longest_target is not None
    text = "1" * (longest - 1)  # a digit is a token, and so is the end
    within, longer_source, longer_target = translator.score(
        [text, text + "1", "1"], ["1", "1", "1" * translator.longest_target]
    )
    assert within.beyond_training is False
    assert (longer_source.beyond_training, longer_target.beyond_training) == (True, True)
    assert longer_source.log_prob == pytest.approx(
        exact_log_probs(translator, text + "1", "1").sum().item(), rel=1e-4
    )
    translator.longest_source = translator.longest_target = None  # a model of an older gnomon
    assert translator.score([text + "1"], ["1"])[0].beyond_training is None


def test_a_pair_that_memory_could_not_hold_has_no_score_and_no_links(
    trained_run: TrainedRun,
) -> None:
    translator = gnomon.load(trained_run.path)
    huge = "1" * 200_000  # its attention alone would take 600 GB
    for sources, targets in (([huge, "12"], ["1", "21"]), (["1", "12"], [huge, "21"])):
        too_long, other = translator.score(sources, targets)
        assert too_long.log_prob is None
        assert "200001" in str(too_long.reason)
        assert other.log_prob is not None
        unaligned, aligned = translator.align(sources, targets)
        assert unaligned.links == ()
        assert "200001" in str(unaligned.reason)
        assert aligned.links == translator.align(["12"], ["21"])[0].links != ()
        with pytest.warns(UserWarning, match="without 1 of 2 pairs.* line 1: "):
            assert summed_nll(translator, sources, targets, 64) == pytest.approx(
                summed_nll(translator, ["12"], ["21"], 64)
            )


def test_a_model_trained_on_long_pairs_reads_them(trained_run: TrainedRun) -> None:
    translator = gnomon.load(trained_run.path)
    pair = Pair([*[4] * 9_000, 3], [2, 4, 3])
    assert "9001 source" in str(pair.problem(translator, None))
    translator.longest_source = 9_001
    assert pair.problem(translator, None) is None
    assert "positions" in str(pair.problem(translator, 9_000))
