"""Subwords lose nothing, special ids cannot be spelled, and training is repeatable."""

import hashlib
import json
import os
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnomon.errors import DataError, ModelError
from gnomon.text import (
    BOS_ID,
    EOS_ID,
    PAD_ID,
    UNK_ID,
    Tokenizer,
    TokenizerConfig,
    TokenizerPair,
)
from gnomon.text.reserved import BYTES, SPECIALS

RESERVED = (*SPECIALS, "<0x0A>", "<0xE2>", "<0x20>")
HOSTILE = [
    "",
    " ",
    "   ",
    "\t",
    "\n",
    " a  b   c ",
    "a\tb\r\u2028c\x85",
    "</s>",
    "<s> <pad><unk></s>",
    "< /s> <<s>> <0x0A> <0xe2> <0x0",
    "▁ ▁a Ġa ##a @@ a@@",
    "e\u0301 \u0301 ça",
    "👩‍👩‍👧‍👦 🇩🇪 🏳️‍🌈",
    "我们去公园。 用Python 编程 2024年5月",
    " 今日は 東京で　会いましょう",
    "สวัสดี ខ្មែរ မြန်မာ हिन्दी",
    "\0\ufffd\ufeff\u200b",
    "1,234.5 12.05.2024 ½ ٣٤",
    "<",
    "�",
]

WORDS = ["the", "a", "dog", "cat", "house", "runs", "sees", "big", "red"]
WORDS += ["我们", "公园", "去", "学校", "你好", "Straße", "für", "über"]
CORPUS = [
    f"{WORDS[n % 17]} {WORDS[(7 * n + 3) % 17]} {WORDS[(5 * n + 1) % 17]} {n}, </s> <0x0A> ok."
    for n in range(300)
]

CONFIGS = {
    "bpe": TokenizerConfig(kind="bpe", vocab_size=500),
    "unigram": TokenizerConfig(kind="unigram", vocab_size=500),
    "whole numbers": TokenizerConfig(vocab_size=500, split_digits=False),
    "nfkc lower": TokenizerConfig(vocab_size=500, normalization="nfkc", lowercase=True),
    "none": TokenizerConfig(vocab_size=500, normalization="none"),
    "unigram numbers": TokenizerConfig(kind="unigram", vocab_size=500, split_digits=False),
}


@pytest.fixture(scope="module")
def trained():
    return {name: Tokenizer.train(CORPUS, config) for name, config in CONFIGS.items()}


any_text = st.text(st.characters(exclude_categories=["Cs"]))
spiced_text = st.lists(
    st.one_of(any_text, st.sampled_from([*RESERVED, *WORDS, " ", "  ", "▁", "<", ">", "\u0301"]))
).map("".join)


def assert_lossless(tokenizer, texts):
    ids = tokenizer.encode(texts)
    assert tokenizer.decode(ids) == [tokenizer.normalise(text) for text in texts]
    for row in ids:
        assert all(EOS_ID < index < tokenizer.vocab_size for index in row)


@pytest.mark.parametrize("name", CONFIGS)
def test_hostile_texts_are_lossless(trained, name):
    assert_lossless(trained[name], HOSTILE)
    assert_lossless(trained[name], CORPUS)


@pytest.mark.parametrize("name", CONFIGS)
@settings(max_examples=150, deadline=None)
@given(text=spiced_text)
def test_any_text_is_lossless(trained, name, text):
    assert_lossless(trained[name], [text])


@given(text=spiced_text)
@settings(deadline=None)
def test_without_normalization_the_text_itself_comes_back(trained, text):
    assert trained["none"].decode(trained["none"].encode([text])) == [text]


def test_normalise_is_the_unicode_form(trained):
    assert trained["bpe"].normalise(" e\u0301 A") == " \u00e9 A"
    assert trained["nfkc lower"].normalise("Ａ２ Straße") == "a2 straße"
    assert trained["none"].normalise("e\u0301") == "e\u0301"


@pytest.mark.parametrize("name", CONFIGS)
def test_ids_are_complete_and_reserved_first(trained, name, tmp_path):
    tokenizer = trained[name]
    assert (PAD_ID, UNK_ID, BOS_ID, EOS_ID) == (0, 1, 2, 3)
    pieces = tokenizer.pieces(range(tokenizer.vocab_size))
    assert tuple(pieces[: 4 + 256]) == SPECIALS + BYTES
    assert len(set(pieces)) == len(pieces) <= 500
    assert not set(pieces[260:]) & {*SPECIALS, *BYTES}


def test_special_ids_decode_to_nothing_and_unknown_shows(trained):
    (hello,) = trained["bpe"].encode(["hello dog"])
    framed = [BOS_ID, *hello, EOS_ID, PAD_ID, PAD_ID]
    assert trained["bpe"].decode([framed, [], [EOS_ID]]) == ["hello dog", "", ""]
    assert trained["bpe"].decode([[*hello, UNK_ID]]) == ["hello dog\ufffd"]


def test_half_a_character_decodes_to_a_replacement(trained):
    snowman = trained["bpe"].encode(["x☃"])[0]
    assert "\ufffd" in trained["bpe"].decode([snowman[:-1]])[0]


@pytest.mark.parametrize("stray", [b"\xc3", b"\xe2\x82", b"\xff\xfe", b"\xa9\xa9"])
def test_a_stray_byte_leaves_the_characters_beside_it_whole(trained, stray):
    tokenizer = trained["bpe"]
    first = len(SPECIALS)
    ids = [first + byte for byte in b"\xf0\x9f\x90\xb6" + stray + b"</s>" + stray + "é".encode()]
    lost = "\ufffd" * len(stray)
    assert tokenizer.decode([ids]) == ["🐶" + lost + "</s>" + lost + "é"]


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_frequent_words_are_one_piece(trained, kind):
    """The unigram trainer never considers a word that is part of no other word by itself."""
    assert trained[kind].pieces(trained[kind].encode(["the dog runs"])[0]) == [
        " the",
        " dog",
        " runs",
    ]


def test_split_digits(trained):
    ids = trained["bpe"].encode(["12 dog 2024 and 3456789"])
    pieces = trained["bpe"].pieces(ids[0])
    assert [p for p in pieces if p[-1].isdigit()] == list("1220243456789")
    whole = trained["whole numbers"]
    numbers = whole.pieces(whole.encode(["the dog 12"])[0])
    assert " 12" in numbers


def test_a_word_is_the_same_piece_at_the_start_of_a_line(trained):
    first, second = trained["bpe"].encode(["dog house", "house dog"])
    assert sorted(first) == sorted(second)


def test_unspaced_scripts_get_no_blank(trained):
    assert trained["bpe"].pieces(trained["bpe"].encode(["我们"])[0]) == ["我们"]


def test_without_bytes_unknown_characters_are_unk():
    tokenizer = Tokenizer.train(CORPUS, TokenizerConfig(vocab_size=300, byte_fallback=False))
    (ids,) = tokenizer.encode(["dog ☃ dog"])
    assert UNK_ID in ids
    assert tokenizer.decode([ids]) == ["dog \ufffd dog"]
    (literal,) = tokenizer.encode(["</s> <unk>"])
    assert not {PAD_ID, BOS_ID, EOS_ID} & set(literal)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_small_text_gives_a_small_vocabulary(kind):
    config = TokenizerConfig(kind=kind, vocab_size=8000, min_frequency=1)
    tokenizer = Tokenizer.train(["a dog and a cat"], config)
    assert 260 < tokenizer.vocab_size < 320
    assert_lossless(tokenizer, HOSTILE)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("text", [[], [""], ["   "], ["xyz"]])
def test_nothing_to_learn_from(kind, text):
    with pytest.raises(DataError, match="needs text"):
        Tokenizer.train(text, TokenizerConfig(kind=kind))


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_many_characters_leave_room_for_words(kind):
    characters = [chr(0x4E00 + i) for i in range(3000)]
    lines = ["".join(characters[i : i + 20]) + "我们去公园" for i in range(0, 3000, 10)]
    tokenizer = Tokenizer.train(lines, TokenizerConfig(kind=kind, vocab_size=1000))
    assert tokenizer.vocab_size <= 1000
    assert "我们去公园" in tokenizer.pieces(range(tokenizer.vocab_size))
    assert_lossless(tokenizer, lines)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
@pytest.mark.parametrize("byte_fallback", [True, False])
@pytest.mark.parametrize("room", [6, 8, 20, 40])
def test_tiny_vocabularies_end_and_fit(kind, byte_fallback, room):
    """The unigram trainer prunes for ever where characters leave no room for pieces."""
    config = TokenizerConfig(kind=kind, byte_fallback=byte_fallback, vocab_size=1000)
    config = replace(config, vocab_size=config.num_reserved + room)
    assert Tokenizer.train(CORPUS, config).vocab_size <= config.vocab_size


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_rare_characters_leave_no_trace(kind):
    """What stands in for them while learning is no piece, and no piece reaches across it."""
    config = TokenizerConfig(kind=kind, vocab_size=400)
    tokenizer = Tokenizer.train([f"dog{chr(0x2600 + n)}house" for n in range(200)], config)
    pieces = tokenizer.pieces(range(260, tokenizer.vocab_size))
    assert not [piece for piece in pieces if set(piece) & {"\n", "\x01", "\u2600"} or "gh" in piece]
    assert_lossless(tokenizer, ["doghouse", "dog\u2600house\n\x01"])


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_training_is_repeatable(kind, tmp_path):
    """In processes with other hash seeds and thread counts, from lists and from iterators."""
    script = (
        "import sys, json\n"
        "from gnomon.text import Tokenizer, TokenizerConfig\n"
        "lines = json.load(sys.stdin)\n"
        f"config = TokenizerConfig(kind={kind!r}, vocab_size=400)\n"
        "lines = iter(lines) if sys.argv[1] == '1' else lines\n"
        "Tokenizer.train(lines, config).save(sys.argv[2])\n"
    )
    digests = set()
    for run, threads in enumerate(("1", "2", "4")):
        path = tmp_path / f"{run}.json"
        subprocess.run(
            [sys.executable, "-c", script, threads, str(path)],
            input=json.dumps(CORPUS).encode(),
            env={**os.environ, "RAYON_NUM_THREADS": threads, "PYTHONHASHSEED": threads},
            check=True,
        )
        digests.add(hashlib.sha256(path.read_bytes()).hexdigest())
    assert len(digests) == 1


def test_save_and_load(trained, tmp_path):
    path = tmp_path / "tokenizer.json"
    for tokenizer in trained.values():
        tokenizer.save(path)
        loaded = Tokenizer.load(path)
        assert loaded.fingerprint == tokenizer.fingerprint
        assert loaded.fingerprint == hashlib.sha256(path.read_bytes()).hexdigest()
        assert loaded.encode(HOSTILE) == tokenizer.encode(HOSTILE)
        assert loaded.vocab_size == tokenizer.vocab_size
    assert len({tokenizer.fingerprint for tokenizer in trained.values()}) == len(trained)


def test_foreign_files_are_refused(trained, tmp_path):
    path = tmp_path / "tokenizer.json"
    with pytest.raises(ModelError):
        Tokenizer.load(path)
    path.write_text('{"no": "tokenizer"}')
    with pytest.raises(ModelError, match="whole"):
        Tokenizer.load(path)
    trained["bpe"].save(path)
    path.write_text(path.read_text().replace('"<pad>"', '"[PAD]"', 1))
    with pytest.raises(ModelError, match="first ids"):
        Tokenizer.load(path)


def test_ids_outside_the_vocabulary_are_refused(trained):
    for row in ([trained["bpe"].vocab_size], [-1]):
        with pytest.raises(ModelError, match="vocabulary"):
            trained["bpe"].decode([row])


def test_lone_surrogates_are_refused(trained):
    with pytest.raises(DataError, match="surrogate"):
        trained["bpe"].encode(["a\ud800b"])


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_a_very_long_line_takes_no_minutes(trained, kind):
    start = time.perf_counter()
    assert_lossless(trained[kind], ["x" * 200_000, "我们去" * 60_000, " \t" * 50_000])
    assert time.perf_counter() - start < 20


def test_options_that_do_not_fit():
    assert TokenizerConfig().problems() == []
    problems = TokenizerConfig(vocab_size=260, min_frequency=0).problems()
    assert len(problems) == 2
    with pytest.raises(DataError, match="vocab_size must be above 260"):
        Tokenizer.train(CORPUS, TokenizerConfig(vocab_size=100))


@pytest.mark.parametrize("joint", [True, False])
def test_pair(tmp_path, joint):
    config = TokenizerConfig(vocab_size=400, joint=joint)
    pair = TokenizerPair.train(CORPUS[:150], CORPUS[150:], config)
    pair.save(tmp_path)
    files = {file.name for file in tmp_path.iterdir()}
    expected = {"tokenizer.json"} if joint else {"tokenizer.source.json", "tokenizer.target.json"}
    assert files == expected
    loaded = TokenizerPair.load(tmp_path)
    assert loaded.joint == pair.joint == joint
    assert loaded.fingerprint == pair.fingerprint


def test_pair_learns_from_both_sides_of_one_shot_iterators():
    config = TokenizerConfig(vocab_size=400)
    once = TokenizerPair.train(iter(CORPUS[:150]), iter(CORPUS[150:]), config)
    assert once.fingerprint == TokenizerPair.train(CORPUS[:150], CORPUS[150:], config).fingerprint
    assert once.fingerprint == TokenizerPair.train([], CORPUS, config).fingerprint


def test_pair_missing(tmp_path):
    with pytest.raises(ModelError, match=r"tokenizer\.json"):
        TokenizerPair.load(tmp_path)


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_a_word_of_a_megabyte_is_learned_from_in_seconds(kind):
    lines = ["the dog and the cat"] * 50 + ["ab" * 500_000, "dog"]
    started = time.monotonic()
    tokenizer = Tokenizer.train(lines, TokenizerConfig(kind=kind, vocab_size=300))
    assert time.monotonic() - started < 60
    (ids,) = tokenizer.encode([lines[-2]])
    assert tokenizer.decode([ids]) == [lines[-2]]
