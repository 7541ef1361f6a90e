"""A SentencePiece model that was read cuts text as SentencePiece itself does."""

import numpy as np
import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers.models import Unigram

from gnomon.errors import ModelError
from gnomon.quickstart import make_corpus
from gnomon.text import Tokenizer
from gnomon.text.bpe_dropout import BPEDropout
from gnomon.text.reserved import BYTES, SPECIALS

OPTIONS = {
    "bpe": {"model_type": "bpe", "byte_fallback": True},
    "bpe unknown": {"model_type": "bpe", "normalization_rule_name": "nfkc"},
    "unigram": {"model_type": "unigram", "byte_fallback": True},
    "unigram unknown": {"model_type": "unigram"},
    "symbols": {"model_type": "bpe", "user_defined_symbols": ["<sep>", "<sep2>", "2de"]},
    "unigram symbols": {"model_type": "unigram", "user_defined_symbols": ["<sep>", "2de"]},
    "blanks kept": {
        "model_type": "unigram",
        "remove_extra_whitespaces": False,
        "normalization_rule_name": "identity",
    },
    "no prefix": {"model_type": "bpe", "add_dummy_prefix": False, "byte_fallback": True},
    "across words": {"model_type": "unigram", "split_by_whitespace": False},
    "padding": {"model_type": "bpe", "pad_id": 0, "unk_id": 3, "bos_id": 1, "eos_id": 2},
}
TEXTS = [
    "",
    " ",
    "A dog runs  through   the house. ",
    "<sep> Monday<sep>  <sep2>2de 2 de",
    "Ａ２ ½ ﬁne ①",
    "tab\tnewline",
    "\u3000wide\u00a0blanks ",
    "日本語 und Straße 🎉🎉 ok",
    "zzzqqq xxx",
]


@pytest.fixture(scope="module")
def lines():
    pairs = make_corpus("de", num_train=2000, num_valid=200, num_test=10)
    return [
        [text for pair in part for text in (pair.source, pair.target)]
        for part in (pairs.train, pairs.valid)
    ]


@pytest.fixture(scope="module", params=OPTIONS)
def both(request, lines, tmp_path_factory):
    """SentencePiece's own processor, and what gnomon makes of the same file."""
    folder = tmp_path_factory.mktemp("spm")
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines[0]),
        model_prefix=str(folder / "m"),
        vocab_size=700,
        num_threads=1,
        minloglevel=2,
        **OPTIONS[request.param],
    )
    path = folder / "m.model"
    return sentencepiece.SentencePieceProcessor(model_file=str(path)), Tokenizer.load(path)


def pieces(processor, text):
    """SentencePiece's cut, unknown pieces by one name."""
    return [
        "<unk>" if processor.is_unknown(index) else processor.id_to_piece(index)
        for index in processor.encode(text)
    ]


def assert_same(tokenizer, processor, text):
    """The same pieces; with unigram, of two orders of them that score alike, either.

    SentencePiece sums in single precision, so that rounding decides between such orders.
    """
    (ids,) = tokenizer.encode([text])
    found, expected = tokenizer.pieces(ids), pieces(processor, text)
    if isinstance(tokenizer._tokenizer.model, Unigram):
        assert sorted(found) == sorted(expected), text
        assert "".join(found) == "".join(expected), text
    else:
        assert found == expected, text
    return found == expected


def test_same_pieces_on_text_never_seen(both, lines):
    processor, tokenizer = both
    texts = [*lines[1], *TEXTS]
    same = [assert_same(tokenizer, processor, text) for text in texts]
    assert len(same) - sum(same) <= 0.005 * len(same)


letters = st.lists(
    st.sampled_from([*"abcdehinorstuABDMS .,-'0123456789äöüß€½Ａ", "  ", "<sep>", "2de"])
).map("".join)


@settings(deadline=None, max_examples=200)
@given(text=letters)
def test_same_pieces_on_any_text_of_the_alphabet(both, text):
    processor, tokenizer = both
    assert_same(tokenizer, processor, text)


def test_decoding(both, lines):
    processor, tokenizer = both
    texts = [text for text in lines[1] if "<unk>" not in pieces(processor, text)]
    assert len(texts) > 100
    assert tokenizer.decode(tokenizer.encode(texts)) == processor.decode(processor.encode(texts))
    assert tokenizer.normalise(texts[0]) == tokenizer.decode(tokenizer.encode(texts[:1]))[0]


def test_ids_are_gnomons(both, tmp_path):
    processor, tokenizer = both
    names = tokenizer.pieces(range(tokenizer.vocab_size))
    assert tuple(names[:4]) == SPECIALS
    with_bytes = any(map(processor.is_byte, range(processor.get_piece_size())))
    assert (tuple(names[4:260]) == BYTES) == with_bytes
    kept = [
        processor.id_to_piece(index)
        for index in range(processor.get_piece_size())
        if not (
            processor.is_control(index) or processor.is_unknown(index) or processor.is_byte(index)
        )
    ]
    assert names[260 if with_bytes else 4 :] == kept
    tokenizer.save(tmp_path / "tokenizer.json")
    assert Tokenizer.load(tmp_path / "tokenizer.json").fingerprint == tokenizer.fingerprint


def test_no_text_spells_a_special_id(both):
    _, tokenizer = both
    for ids in tokenizer.encode(["</s> <s><pad> <0x0A>", "a</s>"]):
        assert all(index > 3 or index == 1 for index in ids)


def test_merges_can_be_dropped(lines, both):
    _, tokenizer = both
    if isinstance(tokenizer._tokenizer.model, Unigram):
        with pytest.raises(ModelError, match="BPE"):
            tokenizer.merges()
        return
    texts = lines[1][:100]
    (same,) = BPEDropout(tokenizer, 0.0, 1).variants(texts, np.arange(100), [0])
    assert same.rows() == tokenizer.encode(texts)
    (cut,) = BPEDropout(tokenizer, 0.3, 1).variants(texts, np.arange(100), [0])
    assert len(cut.ids) > 1.1 * len(same.ids)
    assert tokenizer.decode(cut.rows()) == tokenizer.decode(tokenizer.encode(texts))


@pytest.mark.parametrize(
    ("content", "what"),
    [(b"", "none"), (b"\n\xff", "whole"), (b"\x0f", "whole"), (None, "readable")],
)
def test_damaged_models_are_refused(tmp_path, content, what):
    path = tmp_path / "x.model"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ModelError, match=what):
        Tokenizer.load(path)


def message(number, content):
    """A field of a protocol buffer that holds bytes."""
    return bytes([number << 3 | 2, len(content)]) + content


PIECE = message(1, message(1, b"a"))


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (PIECE + message(3, message(2, b"\xff\xff\xff\x7fxx")), "charsmap"),
        (PIECE + PIECE, "'a' is there twice"),
        (PIECE + message(1, message(1, b"<pad>")), "'<pad>' is there twice"),
    ],
)
def test_damage_within_a_readable_model_is_named(tmp_path, content, what):
    (tmp_path / "m.model").write_bytes(content)
    with pytest.raises(ModelError, match="whole") as caught:
        Tokenizer.load(tmp_path / "m.model")
    assert what in str(caught.value)


@pytest.mark.parametrize("options", [{"model_type": "char"}, {"treat_whitespace_as_suffix": True}])
def test_other_kinds_are_refused(tmp_path, lines, options):
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines[0]),
        model_prefix=str(tmp_path / "m"),
        vocab_size=90,
        hard_vocab_limit=False,
        minloglevel=2,
        **options,
    )
    with pytest.raises(ModelError, match="BPE or unigram"):
        Tokenizer.load(tmp_path / "m.model")
