"""Every example once, within the budget, the same for the same numbers, and little padding."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gnomon.text import BOS_ID, EOS_ID, PAD_ID, BatchPlan, collate

lengths = st.lists(st.tuples(st.integers(1, 60), st.integers(2, 60)), min_size=1, max_size=300).map(
    lambda pairs: np.array(pairs, np.int64).T
)


def padded_size(plan, batch):
    source, target = plan.source_lengths[batch], plan.target_lengths[batch]
    return len(batch) * int(source.max() + target.max())


def sentence_lengths(count, seed=0):
    random = np.random.default_rng(seed)
    source = np.clip(random.lognormal(2.7, 0.4, count), 3, 100).astype(np.int64)
    return source, np.clip(source * random.lognormal(0.05, 0.2, count), 3, 120).astype(np.int64)


@settings(deadline=None)
@given(lengths, st.integers(1, 2000), st.integers(0, 5), st.integers(0, 3))
def test_every_example_once_and_within_budget(sides, budget, seed, number):
    plan = BatchPlan(*sides, budget, seed)
    batches = plan.epoch(number)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(sides[0])))
    assert all(len(batch) == 1 or padded_size(plan, batch) <= budget for batch in batches)
    assert all(len(batch) == 1 or padded_size(plan, batch) <= budget for batch in batches)
    assert 0 <= plan.padding_share(batches) < 1


@settings(deadline=None)
@given(lengths, st.integers(1, 2000))
def test_no_two_neighbouring_batches_could_be_one(sides, budget):
    """Batches are as full as their order allows."""
    plan = BatchPlan(*sides, budget, 0)
    random = np.random.default_rng(3)
    order = plan._by_length(random)
    cuts = plan._cuts(order, random)
    batches = np.split(order, cuts)
    for batch, following in pairwise(batches[1:]):  # the first is cut short on purpose
        assert padded_size(plan, np.append(batch, following[0])) > budget


def test_a_batch_may_meet_the_budget_exactly():
    plan = BatchPlan(np.full(100, 3), np.full(100, 5), 80, seed=0)
    sizes = [len(batch) for batch in plan.epoch(1)]
    assert sorted(sizes)[-9:] == [10] * 9


def same(one, other):
    return len(one) == len(other) and all(map(np.array_equal, one, other))


def test_plan_is_a_function_of_seed_and_epoch():
    sides = sentence_lengths(5000)
    plan = BatchPlan(*sides, 2048, seed=1)
    assert same(plan.epoch(3), plan.epoch(3))  # whatever was asked for before
    assert same(plan.epoch(3), BatchPlan(*sides, 2048, seed=1).epoch(3))
    assert not same(plan.epoch(3), plan.epoch(4))
    assert not same(plan.epoch(3), BatchPlan(*sides, 2048, seed=2).epoch(3))


def test_plan_is_the_same_on_every_machine():
    """A change here makes runs that continue see other batches than they would have."""
    example = np.arange(2000)
    plan = BatchPlan(example * 7919 % 50 + 2, example * 104_729 % 47 + 3, 1024, seed=7)
    batches = plan.epoch(2)
    assert len(batches) == 120
    assert batches[0][:5].tolist() == [376, 1034, 1363, 734, 763]


def test_batches_mix_from_epoch_to_epoch():
    """Of the examples that shared a batch, most do not in the next epoch."""
    plan = BatchPlan(*sentence_lengths(20_000), 4096, seed=0)
    owner = np.empty(20_000, np.int64)
    for index, batch in enumerate(plan.epoch(2)):
        owner[batch] = index
    shares = []
    for batch in plan.epoch(1):
        _, counts = np.unique(owner[batch], return_counts=True)
        shares.append((counts * (counts - 1)).sum() / max(1, len(batch) * (len(batch) - 1)))
    assert np.mean(shares) < 0.5


def test_order_of_batches_is_not_by_length():
    plan = BatchPlan(*sentence_lengths(20_000), 4096, seed=0)
    means = [plan.source_lengths[batch].mean() for batch in plan.epoch(1)]
    assert abs(np.corrcoef(means, np.arange(len(means)))[0, 1]) < 0.15


def test_largest_batch_comes_first_in_the_first_epoch():
    for seed in range(5):
        plan = BatchPlan(*sentence_lengths(5000, seed), 2048, seed)
        sizes = [padded_size(plan, batch) for batch in plan.epoch(0)]
        assert sizes[0] == max(sizes)
    oversized = np.array([5, 5, 900, 5]), np.array([5, 5, 900, 5])
    assert BatchPlan(*oversized, 1000, 0).epoch(0)[0].tolist() == [2]


@pytest.mark.parametrize("budget", [4096, 8192])
def test_padding_is_small(budget):
    """The bound that `benchmarks/padding.py` measures on real text."""
    plan = BatchPlan(*sentence_lengths(30_000), budget, seed=0)
    assert plan.padding_share(plan.epoch(1)) < 0.08


def test_collate(store):
    rows = [17, 3, 401]
    batch = collate(store, rows)
    assert batch.source.dtype == batch.target.dtype == torch.int64
    assert batch.source.shape == (3, max(store.source_lengths[rows]))
    assert batch.target.shape == (3, max(store.target_lengths[rows]))
    for row, index in enumerate(rows):
        source = [*store.source(index).tolist(), EOS_ID]
        target = [BOS_ID, *store.target(index).tolist(), EOS_ID]
        pad = [PAD_ID]
        assert batch.source[row].tolist() == source + pad * (batch.source.shape[1] - len(source))
        assert batch.target[row].tolist() == target + pad * (batch.target.shape[1] - len(target))
    assert batch.indices == rows
    assert batch.line_numbers == [store.line_numbers[row] for row in rows]
    assert batch.num_target_tokens == int((batch.target[:, 1:] != PAD_ID).sum())


def test_moving_keeps_everything(store):
    batch = collate(store, [1, 2])
    moved = batch.to("meta")
    assert moved.source.device.type == "meta"
    assert moved.target.device.type == "meta"
    assert moved.num_target_tokens == batch.num_target_tokens
    assert moved.line_numbers == batch.line_numbers


def test_a_repeated_batch_holds_whole_copies(store):
    batch = collate(store, [1, 2, 9])
    twice = batch.repeated(2)
    for half in (slice(0, 3), slice(3, 6)):
        assert twice.source[half].equal(batch.source)
        assert twice.target[half].equal(batch.target)
        assert twice.line_numbers[half] == batch.line_numbers
    assert twice.num_target_tokens == 2 * batch.num_target_tokens


def test_one_example(store):
    plan = BatchPlan(store.source_lengths[:1], store.target_lengths[:1], 10, 0)
    assert [batch.tolist() for batch in plan.epoch(0)] == [[0]]
    assert collate(store, plan.epoch(0)[0]).source.shape[0] == 1
