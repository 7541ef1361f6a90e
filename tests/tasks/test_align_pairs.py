"""Alignment of given pairs: the right rows, words instead of pieces, both directions."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

import gnomon
from digits import TrainedRun
from gnomon.errors import DataError, ModelError
from gnomon.model import AttentionConfig, FeedForwardConfig, Transformer
from gnomon.model import TransformerConfig as Config
from gnomon.tasks import symmetrise
from gnomon.tasks.alignment import chosen_layer
from gnomon.text import owners, units


def plain_weights(model: Transformer, source: list[int], inputs: list[int]) -> np.ndarray:
    """Cross-attention [T, S] of the last layer, mean of heads, by its formula from what it reads.

    Hooks see what goes into the projections; the softmax is taken here.
    """
    cross = model.decoder.layers[-1].cross
    seen: dict[str, torch.Tensor] = {}
    handles = [
        cross.query.register_forward_hook(lambda m, i, o: seen.update(query=o)),
        cross.key_value.register_forward_hook(lambda m, i, o: seen.update(key_value=o)),
    ]
    with torch.no_grad():
        model(torch.tensor([source]), torch.tensor([inputs]))
    for handle in handles:
        handle.remove()
    H, K = cross.num_heads, cross.head_size
    query = seen["query"][0].view(len(inputs), H, K)
    key = seen["key_value"][0, :, : cross.num_key_value_heads * K].view(len(source), -1, K)
    scores = torch.einsum("thk,shk->hts", query, key.repeat_interleave(H // key.size(1), 1))
    return (scores * cross.scale).softmax(-1).mean(0).numpy()


def test_alignment_is_the_attention_of_the_step_that_predicts_or_reads_the_token(
    trained_run: TrainedRun,
) -> None:
    translator = gnomon.load(trained_run.path)
    text, target = "1 23", "3 1"
    (source_ids,) = translator.tokenizers.source.encode([text])
    (target_ids,) = translator.tokenizers.target.encode([target])
    assert translator.tokenizers.source.pieces(source_ids) == ["1", "<0x20>", "2", "3"]
    weights = plain_weights(translator.model.eval(), [*source_ids, 3], [2, *target_ids])
    for shift, rows in ((True, (1, 3)), (False, (0, 2))):
        (found,) = translator.align([text], [target], shift=shift)
        assert (found.source, found.target) == (("1", "23"), ("3", "1"))
        expected = [[weights[row, 0], weights[row, 2] + weights[row, 3]] for row in rows]
        assert np.allclose(found.weights, expected, atol=1e-6)
        elsewhere = [weights[row, 1] + weights[row, 4] for row in rows]
        assert np.allclose(found.elsewhere, elsewhere, atol=1e-6)
        assert found.links == tuple(
            sorted((int(np.argmax(row)), unit) for unit, row in enumerate(expected))
        )


def test_a_target_word_is_the_mean_of_its_pieces(trained_run: TrainedRun) -> None:
    translator = gnomon.load(trained_run.path)
    (whole,) = translator.align(["1 23"], ["31 2"])
    (apart,) = translator.align(["1 23"], ["31 2"], target_units="characters")
    assert apart.target == ("3", "1", "2")
    assert np.allclose(whole.weights[0], np.mean(apart.weights[:2], 0), atol=1e-6)
    assert np.allclose(whole.weights[1], apart.weights[2], atol=1e-6)


def test_alignment_does_not_depend_on_neighbours(trained_run: TrainedRun) -> None:
    translator = gnomon.load(trained_run.path)
    sources = [" ".join(source) for source in trained_run.sources[:30]]
    targets = [source[::-1] for source in sources]
    together = translator.align(sources, targets)
    order = list(range(30))
    random.Random(3).shuffle(order)
    other = translator.align(
        [sources[i] for i in order], [targets[i] for i in order], batch_tokens=50
    )
    for place, i in enumerate(order):
        assert np.allclose(other[place].weights, together[i].weights, atol=1e-5)
        sums = np.sum(together[i].weights, 1) + together[i].elsewhere
        assert np.allclose(sums, 1, atol=1e-5)


def test_blank_and_unreachable_pairs(
    trained_run: TrainedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    translator = gnomon.load(trained_run.path)
    found = translator.align(["", "1 2", "1"], [" 3", "", "1"])
    assert [item.links for item in found] == [(), (), ((0, 0),)]
    assert [item.reason for item in found] == [None, None, None]
    with pytest.raises(DataError):
        translator.align(["1"], [])
    with pytest.raises(DataError, match="units"):
        translator.align(["1"], ["1"], source_units="sentences")  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="layer 2"):
        translator.align(["1"], ["1"], layer=2)
    monkeypatch.setattr(type(translator.model.config), "max_positions", lambda self: 4)
    (long,) = translator.align(["12345"], ["1"])
    assert long.links == ()
    assert "4 positions" in str(long.reason)


def test_the_last_layer_but_one_is_looked_at() -> None:
    assert [chosen_layer(count, None) for count in (1, 2, 6)] == [0, 0, 4]
    assert chosen_layer(6, 6) == 5


def test_any_layer_can_be_looked_at_and_grouped_heads_too() -> None:
    torch.manual_seed(0)
    config = Config(
        vocab_size=50,
        d_model=32,
        num_encoder_layers=1,
        num_decoder_layers=3,
        attention=AttentionConfig(num_heads=4, num_key_value_heads=2),
        feedforward=FeedForwardConfig(size=64),
    )
    model = Transformer(config).eval()
    source = torch.tensor([[5, 6, 7, 8], [9, 4, 0, 0]])
    target = torch.tensor([[2, 11, 12], [2, 13, 0]])
    keep = model.keep(source)
    cache = model.new_cache()
    cache.layers[2].keeps_attention = True
    with torch.no_grad():
        memory = model.encode(source, keep)
        plain = model.decode(target, memory, keep)
        watched = model.decode(target, memory, keep, cache=cache)
    assert torch.allclose(plain, watched, atol=1e-6)
    seen = cache.layers[2].memory_attention
    assert seen is not None
    assert seen.shape == (2, 3, 4)
    assert (seen[1, :, 2:] == 0).all()
    expected = plain_weights(model, source[0].tolist(), target[0].tolist())
    assert np.allclose(seen[0].numpy(), expected, atol=1e-6)
    assert cache.layers[0].memory_attention is None


def test_pieces_belong_to_the_words_they_begin_in() -> None:
    text = " é😀 wörld\u00a0x"
    spans = units(text, "words")
    assert [text[a:b] for a, b in spans] == text.split() == ["é😀", "wörld", "x"]
    pieces = [(0, 2), (2, 3), (2, 3), (3, 6), (6, 9), (9, 10), (10, 11), (3, 4)]
    assert owners(pieces, spans, len(text)) == [0, 0, 0, 1, 1, -1, 2, -1]
    text = "一只 e\u0301x"
    found = [text[start:end] for start, end in units(text, "characters")]
    assert found == ["一", "只", "e\u0301", "x"]


def test_spans_are_those_of_the_ids(trained_run: TrainedRun) -> None:
    tokenizer = gnomon.load(trained_run.path).tokenizers.source
    for text in ("12 3", "é😀 12", "e\u0301 一只狗", " 1", "", "</s> 7"):
        (spans,) = tokenizer.spans([text])
        (ids,) = tokenizer.encode([text])
        assert len(spans) == len(ids)
        owned = owners(spans, units(text, "words"), len(text))
        assert set(range(len(text.split()))) == set(owned) - {-1}


def test_symmetrisation_by_hand() -> None:
    forward = [(0, 0), (1, 1), (2, 1), (3, 4)]
    reverse = [(0, 0), (1, 1), (1, 2), (5, 5), (3, 3)]
    assert symmetrise(forward, reverse, "intersection") == ((0, 0), (1, 1))
    assert len(symmetrise(forward, reverse, "union")) == 7
    grown = symmetrise(forward, reverse, "grow-diag-final-and")
    # (2,1) and (1,2) touch (1,1) and bring a new word each; (3,3) touches neither, but nor does
    # it need to: it is diagonal to none and both its words are free at the end, as are (5,5)'s.
    # (3,4) comes first among the last, so (3,3) finds its source taken.
    assert grown == ((0, 0), (1, 1), (1, 2), (2, 1), (3, 4), (5, 5))
    # A neighbour of a neighbour is reached; a link between two linked words is not added.
    assert symmetrise([(0, 0), (1, 0), (2, 0)], [(0, 0)], "grow-diag-final-and") == (
        (0, 0),
        (1, 0),
        (2, 0),
    )
    assert symmetrise([(0, 0), (1, 1), (0, 1)], [(0, 0), (1, 1)], "grow-diag-final-and") == (
        (0, 0),
        (1, 1),
    )
    with pytest.raises(DataError, match="grow-diag"):
        symmetrise([], [], "gdfa")  # type: ignore[arg-type]
