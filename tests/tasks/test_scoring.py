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
from gnomon.tasks.likelihood import summed_nll
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
