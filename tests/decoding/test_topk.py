"""The best extensions equal a full stable sort, ties included."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gnomon.decoding.topk import BLOCK, best_extensions

INF = float("inf")


def by_sorting(log_probs, next_log_probs, count):
    V = next_log_probs.size(-1)
    totals = (next_log_probs + log_probs.unsqueeze(-1)).flatten(1)
    values, places = totals.sort(dim=1, descending=True, stable=True)
    return values[:, :count], places[:, :count] // V, places[:, :count] % V


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 2**31),
    B=st.integers(1, 3),
    k=st.integers(1, 5),
    V=st.sampled_from([1, 5, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, 1000]),
    count=st.integers(1, 9),
    levels=st.sampled_from([0, 1, 3, None]),
    share_impossible=st.sampled_from([0.0, 0.3, 0.95]),
)
def test_equals_a_stable_sort(seed, B, k, V, count, levels, share_impossible):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(B, k, V, generator=generator)
    if levels is not None:
        scores = (scores * levels).round()  # 0 levels: nothing but 0.0 and -0.0
    scores[torch.rand(B, k, V, generator=generator) < share_impossible] = -INF
    log_probs = torch.randn(B, k, generator=generator).round()
    log_probs[torch.rand(B, k, generator=generator) < 0.2] = -INF
    values, parents, tokens = best_extensions(log_probs, scores, count)
    assert values.shape == parents.shape == tokens.shape == (B, count)
    possible = min(count, k * V)
    expected = by_sorting(log_probs, scores, count)
    assert torch.equal(values[:, :possible], expected[0])
    assert (values[:, possible:] == -INF).all()
    real = expected[0] > -INF
    assert torch.equal(parents[:, :possible][real], expected[1][real])
    assert torch.equal(tokens[:, :possible][real], expected[2][real])
    assert (tokens < V).all() and (parents < k).all()


@pytest.mark.parametrize("nan", [float("nan"), -float("nan")])
@pytest.mark.parametrize("place", [0, 70, 129])
def test_nan_shows_in_the_first_place_of_its_sentence(nan, place):
    scores = torch.randn(2, 3, 130)
    scores[1, 2, place] = nan
    values, _, _ = best_extensions(torch.zeros(2, 3), scores, 4)
    assert values[1, 0] == INF
    assert values[0].isfinite().all()
