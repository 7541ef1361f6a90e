"""Greedy search: the definition, and equality with a beam of one."""

import dataclasses

from hypothesis import given, settings
from hypothesis import strategies as st

from gnomon.decoding import SearchConfig, beam_search, greedy_search

penalties = st.sampled_from(
    [("none", 0.6), ("average", 0.6), ("gnmt", 1.0), ("gnmt", 0.0), ("gnmt", -1.0)]
)


@settings(max_examples=100, deadline=None)
@given(st.data(), penalties, st.integers(1, 4), st.sampled_from([1, None]))
def test_equals_a_beam_of_one_bit_for_bit(toy, data, penalty, min_length, levels):
    sentences = data.draw(st.lists(st.integers(0, 2**31), min_size=1, max_size=5))
    limits = [data.draw(st.integers(1, 8)) for _ in sentences]
    config = SearchConfig(
        beam=1, length_penalty=penalty[0], alpha=penalty[1], min_length=min_length
    )
    greedy = greedy_search(
        toy.Scorer(sentences, levels=levels), config, **toy.ids, max_lengths=limits
    )
    beam = beam_search(toy.Scorer(sentences, levels=levels), config, **toy.ids, max_lengths=limits)
    assert [[hypothesis] for hypothesis in greedy] == beam


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 8), st.integers(1, 4))
def test_takes_the_most_probable_token_every_time(toy, sentence, limit, min_length):
    config = SearchConfig(min_length=min_length, beam=7)
    (found,) = greedy_search(toy.Scorer([sentence]), config, **toy.ids, max_lengths=[limit])
    tokens = []
    while len(tokens) < limit and (not tokens or tokens[-1] != toy.ids["eos_id"]):
        log_probs = toy.log_probs_after(sentence, tokens, 6, None).clone()
        log_probs[[toy.ids["pad_id"], toy.ids["bos_id"]]] = -float("inf")
        if len(tokens) + 1 < min_length:
            log_probs[toy.ids["eos_id"]] = -float("inf")
        tokens.append(int(log_probs.argmax()))
    assert found.tokens == tokens
    assert found.truncated == (tokens[-1] != toy.ids["eos_id"])


def test_alone_equals_in_a_batch(toy):
    config = dataclasses.replace(SearchConfig(), beam=1)
    limits = [3, 9, 1, 20]
    together = greedy_search(toy.Scorer(range(4)), config, **toy.ids, max_lengths=limits)
    for sentence, limit in enumerate(limits):
        alone = greedy_search(toy.Scorer([sentence]), config, **toy.ids, max_lengths=[limit])
        assert alone == [together[sentence]]
