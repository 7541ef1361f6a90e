"""Cached scores of a random tiny Transformer equal recomputation; batches change nothing."""

import pytest
import torch

from gnomon.decoding import (
    DecoderScorer,
    EncoderDecoderScorer,
    SearchConfig,
    beam_search,
    greedy_search,
)
from gnomon.model import (
    AttentionConfig,
    FeedForwardConfig,
    PositionConfig,
    Transformer,
    TransformerConfig,
)

VOCAB_SIZE = 70  # more than one block of the top-k
POSITIONS = ["sinusoidal", "learned", "rope", "alibi", "relative"]


def tiny(family, position="sinusoidal", **changes):
    torch.manual_seed(1)
    config = TransformerConfig(
        family=family,
        vocab_size=VOCAB_SIZE,
        d_model=32,
        num_encoder_layers=2,
        num_decoder_layers=2,
        attention=AttentionConfig(num_heads=4, **changes),
        feedforward=FeedForwardConfig(size=48),
        position=PositionConfig(kind=position),
    )
    model = Transformer(config).eval()
    with torch.no_grad():  # surer of itself than at its start, so that rounding decides nothing
        model.table("output").mul_(3)
    return model


def sources(lengths):
    generator = torch.Generator().manual_seed(2)
    return [torch.randint(4, VOCAB_SIZE, (n,), generator=generator) for n in lengths]


def padded(rows):
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=0)


def random_select(generator, num_sentences, k):
    """Places to keep, and parents among k old hypotheses for three new ones."""
    kept = torch.rand(num_sentences, generator=generator) < 0.7
    kept[int(torch.randint(num_sentences, (1,), generator=generator))] = True
    sentences = None if bool(kept.all()) else kept.nonzero().squeeze(1)
    return sentences, torch.randint(k, (int(kept.sum()), 3), generator=generator)


def check_against_recomputation(scorer, starts, recompute):
    """Walk a scorer through random steps beside plain prefixes that are scored from scratch."""
    generator = torch.Generator().manual_seed(3)
    prefixes = [[list(start)] for start in starts]
    tokens = torch.full((len(starts), 1), 2)
    numbers = list(range(len(starts)))
    for _ in range(6):
        for rows, new in zip(prefixes, tokens.tolist(), strict=True):
            for row, token in zip(rows, new, strict=True):
                row.append(token)
        found = scorer.next_log_probs(tokens)
        assert found.shape == (*tokens.shape, VOCAB_SIZE)
        for number, rows, values in zip(numbers, prefixes, found, strict=True):
            for row, value in zip(rows, values, strict=True):
                torch.testing.assert_close(value, recompute(number, row), rtol=2e-5, atol=2e-5)
        places, parents = random_select(generator, len(numbers), tokens.size(1))
        scorer.select(places, parents)
        places = range(len(numbers)) if places is None else places.tolist()
        numbers = [numbers[place] for place in places]
        prefixes = [
            [list(prefixes[place][parent]) for parent in row]
            for place, row in zip(places, parents.tolist(), strict=True)
        ]
        assert scorer.num_sentences == len(numbers)
        tokens = torch.randint(4, VOCAB_SIZE, parents.shape, generator=generator)


@pytest.mark.parametrize("position", POSITIONS)
@torch.no_grad()
def test_encoder_decoder_equals_recomputation(position):
    model = tiny("encoder_decoder", position)
    rows = sources([3, 7, 1, 5, 9])

    def recompute(number, prefix):
        logits = model(rows[number][None], torch.tensor([prefix]))
        return logits[0, -1].log_softmax(-1)

    scorer = EncoderDecoderScorer(model, padded(rows))
    check_against_recomputation(scorer, [[]] * len(rows), recompute)


@pytest.mark.parametrize("position", POSITIONS)
@torch.no_grad()
def test_decoder_equals_recomputation(position):
    model = tiny("decoder", position)
    prompts = [row.tolist() for row in sources([3, 0, 6, 1])]

    def recompute(number, prefix):
        ids = [2, *prompts[number], *prefix[1:]]  # BOS comes before the prompt
        return model(torch.tensor([ids]))[0, -1].log_softmax(-1)

    check_against_recomputation(DecoderScorer(model, prompts), [[]] * len(prompts), recompute)


@pytest.mark.parametrize("beam", [1, 4])
def test_ragged_batch_equals_one_by_one_in_any_order(beam):
    model = tiny("encoder_decoder")
    rows = sources([3, 12, 1, 5, 9, 5, 2])
    config = SearchConfig(beam=beam, nbest=min(beam, 2), alpha=0.6, max_length_offset=5)
    ids = {"pad_id": 0, "bos_id": 2, "eos_id": 3}

    def search(batch):
        limits = config.max_lengths([len(row) for row in batch])
        scorer = EncoderDecoderScorer(model, padded(batch))
        return beam_search(scorer, config, **ids, max_lengths=limits)

    def assert_same(found, expected):
        assert [h.tokens for h in found] == [h.tokens for h in expected]
        assert [h.truncated for h in found] == [h.truncated for h in expected]
        assert [h.score for h in found] == pytest.approx([h.score for h in expected], rel=1e-5)

    alone = [search([row])[0] for row in rows]
    assert len({tuple(found[0].tokens) for found in alone}) > 1  # the source matters
    for found, expected in zip(search(rows), alone, strict=True):
        assert_same(found, expected)
    for found, expected in zip(search(rows[::-1]), alone[::-1], strict=True):
        assert_same(found, expected)
    if beam == 1:
        limits = config.max_lengths([len(row) for row in rows])
        scorer = EncoderDecoderScorer(model, padded(rows))
        greedy = greedy_search(scorer, config, **ids, max_lengths=limits)
        for found, expected in zip(greedy, alone, strict=True):
            assert_same([found], expected)


def test_log_prob_is_the_model_s_own():
    model = tiny("encoder_decoder")
    (source,) = sources([6])
    config = SearchConfig(beam=3, nbest=3)
    (found,) = beam_search(
        EncoderDecoderScorer(model, source[None]),
        config,
        pad_id=0,
        bos_id=2,
        eos_id=3,
        max_lengths=[8],
    )
    for hypothesis in found:
        target = torch.tensor([[2, *hypothesis.tokens]])
        with torch.no_grad():
            log_probs = model(source[None], target[:, :-1]).log_softmax(-1)
        total = log_probs.gather(2, target[:, 1:, None]).sum()
        assert hypothesis.log_prob == pytest.approx(float(total), rel=1e-5)


def test_grouped_query_heads_keep_their_cache_in_order():
    model = tiny("encoder_decoder", num_key_value_heads=2)
    rows = sources([4, 8])

    def recompute(number, prefix):
        logits = model(rows[number][None], torch.tensor([prefix]))
        return logits[0, -1].log_softmax(-1)

    with torch.no_grad():
        scorer = EncoderDecoderScorer(model, padded(rows))
        check_against_recomputation(scorer, [[]] * 2, recompute)


def test_a_model_in_training_mode_is_refused():
    with pytest.raises(AssertionError, match="eval"):
        EncoderDecoderScorer(tiny("encoder_decoder").train(), torch.tensor([[5]]))
