"""Masks by hand, and what they become in each dtype."""

from __future__ import annotations

import pytest
import torch

from gnomon.model.attend import attend
from gnomon.model.masks import Mask, look_ahead_mask, padding_mask
from gnomon.model.patterns import BlockSparse, Pattern, SlidingWindow

CPU = torch.device("cpu")


def test_look_ahead_is_aligned_at_the_last_token() -> None:
    assert look_ahead_mask(3, 3, CPU)[0, 0].int().tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert look_ahead_mask(2, 4, CPU)[0, 0].int().tolist() == [[1, 1, 1, 0], [1, 1, 1, 1]]


def test_padding_and_look_ahead_combine_by_and() -> None:
    padding = torch.tensor([[True, True, False], [True, False, False]])
    assert padding_mask(padding).shape == (2, 1, 1, 3)
    combined = Mask(3, 3, CPU, padding=padding, causal=True).combined
    assert combined is not None
    assert combined[:, 0].int().tolist() == [
        [[1, 0, 0], [1, 1, 0], [1, 1, 0]],
        [[1, 0, 0], [1, 0, 0], [1, 0, 0]],
    ]


def test_a_mask_that_hides_nothing_is_no_mask() -> None:
    mask = Mask(3, 3, CPU, padding=torch.ones((2, 3), dtype=torch.bool))
    assert mask.keep is None
    assert mask.additive(torch.float32) is None


def test_fused_look_ahead_only_where_it_says_everything() -> None:
    padding = torch.tensor([[True, False, True]])
    assert Mask(3, 3, CPU, causal=True).only_causal
    assert not Mask(2, 3, CPU, causal=True).only_causal
    assert not Mask(1, 1, CPU, causal=True).only_causal
    assert not Mask(3, 3, CPU, causal=True, padding=padding).only_causal
    assert not Mask(3, 3, CPU, causal=True, bias=torch.zeros(1, 1, 3, 3)).only_causal
    assert not Mask(3, 3, CPU, causal=True, pattern=SlidingWindow(2)).only_causal


def seen(pattern: Pattern, length: int) -> list[list[int]]:
    combined = Mask(length, length, CPU, pattern=pattern).combined
    assert combined is not None
    rows: list[list[int]] = combined[0, 0].int().tolist()
    return rows


def test_sliding_window_counts_the_token_itself() -> None:
    assert seen(SlidingWindow(2), 4) == [[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1], [0, 0, 1, 1]]


def test_dilated_window_counts_in_steps() -> None:
    rows = seen(SlidingWindow(2, dilation=3), 8)
    assert rows[0] == [1, 0, 0, 1, 0, 0, 0, 0]
    assert rows[4] == [0, 1, 0, 0, 1, 0, 0, 1]


def test_global_tokens_see_all_and_are_seen_by_all() -> None:
    rows = seen(SlidingWindow(1, num_global=2), 5)
    assert rows[:2] == [[1] * 5] * 2
    assert rows[3] == [1, 1, 0, 1, 0]


def test_global_tokens_may_be_chosen_text_by_text() -> None:
    chosen = torch.tensor([[False, False, True, False], [False, False, False, True]])
    padding = torch.tensor([[True, True, True, True], [True, True, True, False]])
    mask = Mask(4, 4, CPU, pattern=SlidingWindow(1), global_tokens=chosen, padding=padding)
    assert mask.combined is not None
    assert mask.combined[0, 0].int().tolist() == [
        [1, 0, 1, 0],
        [0, 1, 1, 0],
        [1, 1, 1, 1],
        [0, 0, 1, 1],
    ]
    assert mask.combined[1, 0, :3].int().tolist() == [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]


def test_block_sparse_has_neighbouring_blocks_and_global_tokens() -> None:
    rows = seen(BlockSparse(2, 1), 8)
    assert rows[0] == [1] * 8  # global, sees all
    assert rows[2] == [1, 1, 1, 1, 1, 1, 0, 0]
    assert rows[7] == [1, 0, 0, 0, 1, 1, 1, 1]  # the first token is seen by all


def test_places_count_from_where_each_text_begins() -> None:
    padding = torch.tensor([[False, True, True, True, True], [True, True, True, True, False]])
    combined = Mask(5, 5, CPU, pattern=BlockSparse(1, 1), padding=padding).combined
    assert combined is not None
    assert combined[0, 0, 4].int().tolist() == [0, 1, 0, 1, 1]
    assert combined[1, 0, 3].int().tolist() == [1, 0, 1, 1, 0]


@pytest.mark.parametrize("pattern", [SlidingWindow(3), SlidingWindow(3, 4), BlockSparse(3)])
def test_what_is_older_than_the_oldest_is_seen_by_nobody_later(pattern: Pattern) -> None:
    rows = seen(pattern, 40)
    for query in range(40):
        oldest = pattern.oldest(query)
        assert not any(any(row[:oldest]) for row in rows[query:])
        assert oldest == 0 or any(row[oldest] for row in rows[query:])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_masked_scores_are_the_smallest_finite_number_of_their_dtype(dtype: torch.dtype) -> None:
    additive = Mask(2, 2, CPU, causal=True).additive(dtype)
    assert additive is not None and additive.dtype == dtype
    smallest = torch.finfo(dtype).min
    assert additive[0, 0].tolist() == [[0.0, smallest], [0.0, 0.0]]


def test_each_form_is_built_once() -> None:
    mask = Mask(3, 3, CPU, causal=True)
    assert mask.additive(torch.float32) is mask.additive(torch.float32)
    assert mask.keep is mask.keep


def test_look_ahead_alone_builds_no_square() -> None:
    """The fused kernel applies it by itself; a mask of T x S would be all that grows so fast."""
    mask = Mask(9, 9, CPU, causal=True)
    query = torch.randn(1, 2, 9, 4)
    attend(query, query, query, mask, scale=0.5)
    assert "combined" not in mask.__dict__
