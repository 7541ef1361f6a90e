"""BPE-dropout changes the pieces and never the text; all chance in it comes from the seed."""

import hashlib
from collections import Counter
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnomon.errors import ModelError
from gnomon.text import (
    AugmentationConfig,
    ParallelCorpus,
    Tokenizer,
    TokenizerConfig,
    TokenizerPair,
    TokenStore,
    Variants,
    bpe_dropout,
    store_writer,
)
from gnomon.text.bpe_dropout import BPEDropout

WORDS = [
    "the",
    "a",
    "dog",
    "cat",
    "house",
    "runs",
    "sees",
    "unbelievable",
    "我们",
    "公园",
    "Straße",
]
CORPUS = [
    f"{WORDS[n % 11]} {WORDS[(7 * n + 3) % 11]}  {WORDS[(5 * n + 1) % 11]} {n}, </s> <0x0A> ok."
    for n in range(300)
]
HOSTILE = [
    "",
    " ",
    "\t  ",
    "</s> <0x0A>",
    "สวัสดี",
    "e\u0301",
    "👩‍👩‍👧‍👦",
    "\0\ufffd",
    "a" * 500,
    "dog " * 90,
]
SPLIT = Variants(bpe_dropout=0.3, num_variants=3, seed=5)


@pytest.fixture(scope="module", params=["bytes", "no bytes", "joined digits"])
def tokenizer(request):
    return Tokenizer.train(
        CORPUS,
        TokenizerConfig(
            vocab_size=500,
            byte_fallback=request.param != "no bytes",
            split_digits=request.param != "joined digits",
        ),
    )


def variants(tokenizer, texts, *, p, count=3, seed=1, first=0):
    numbers = np.arange(first, first + len(texts))
    return [
        rows.rows()
        for rows in BPEDropout(tokenizer, p, seed).variants(texts, numbers, range(count))
    ]


any_text = st.text(st.characters(exclude_categories=["Cs"]))
texts = st.lists(
    st.lists(st.one_of(any_text, st.sampled_from([*WORDS, " ", "  ", "<", "▁"]))).map("".join),
    max_size=4,
)


@settings(deadline=None)
@given(texts=texts)
def test_without_dropout_it_is_the_tokenizer(tokenizer, texts):
    for found in variants(tokenizer, texts, p=0.0):
        assert found == tokenizer.encode(texts)


def test_long_words_without_dropout_are_the_tokenizer(tokenizer):
    """They are merged in parts, which must not show."""
    texts = [*HOSTILE, "unbelievable" * 40, "我们公园" * 50, *CORPUS]
    assert variants(tokenizer, texts, p=0.0, count=1) == [tokenizer.encode(texts)]


@settings(deadline=None)
@given(texts=texts, p=st.sampled_from([0.1, 0.5, 0.9, 1.0]), seed=st.integers(-5, 1 << 65))
def test_every_variant_is_the_same_text(tokenizer, texts, p, seed):
    plain = tokenizer.decode(tokenizer.encode(texts))
    for found in variants(tokenizer, texts, p=p, seed=seed):
        assert tokenizer.decode(found) == plain


def test_hostile_texts_are_the_same_text(tokenizer):
    plain = tokenizer.decode(tokenizer.encode(HOSTILE))
    for found in variants(tokenizer, HOSTILE, p=0.4, count=5):
        assert tokenizer.decode(found) == plain


def test_all_merges_dropped_leaves_characters(tokenizer):
    (found,) = variants(tokenizer, CORPUS, p=1.0, count=1)
    for text, ids in zip(CORPUS, found, strict=True):
        pieces = [name for name in tokenizer.pieces(ids) if name != "<unk>" and name[:3] != "<0x"]
        assert {len(piece) for piece in pieces} == {1}
        assert len(ids) >= len(tokenizer.normalise(text))


def test_draws_depend_on_seed_variant_number_and_nothing_else(tokenizer):
    one = variants(tokenizer, CORPUS, p=0.2)
    assert one == variants(tokenizer, CORPUS, p=0.2)
    assert one == variants(tokenizer, CORPUS, p=0.2, count=5)[:3]
    assert one[0] != one[1] != one[2]
    assert one != variants(tokenizer, CORPUS, p=0.2, seed=2)
    assert one != variants(tokenizer, CORPUS, p=0.2, first=1)
    # The neighbours in a chunk play no part.
    assert [found[100:] for found in one] == variants(tokenizer, CORPUS[100:], p=0.2, first=100)
    assert variants(tokenizer, ["dog"] * 50, p=0.5, count=1) != [
        variants(tokenizer, ["dog"], p=0.5, count=1)[0] * 50
    ]


def brute_force(pieces, merges, p):
    """Probability of each segmentation, by the algorithm as the paper has it."""
    candidates = sorted(
        (merges[pair], place) for place, pair in enumerate(pairwise(pieces)) if pair in merges
    )
    found = Counter({tuple(pieces): p ** len(candidates)})
    for index, (_, place) in enumerate(candidates):
        joined = [*pieces[:place], pieces[place] + pieces[place + 1], *pieces[place + 2 :]]
        for outcome, chance in brute_force(joined, merges, p).items():
            found[outcome] += chance * p**index * (1 - p)
    return found


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_segmentations_come_as_often_as_the_paper_says(p, monkeypatch):
    tokenizer = Tokenizer.train(CORPUS, TokenizerConfig(vocab_size=500))
    monkeypatch.setattr(bpe_dropout, "_NUM_DRAWS", 1 << 20)
    names = tokenizer.pieces(range(tokenizer.vocab_size))
    merges = {}
    for rank, (left, right, _) in enumerate(tokenizer.merges()):
        merges.setdefault((names[left], names[right]), rank)
    expected = brute_force(list(" sees"), merges, p)
    assert len(expected) > 5
    total = 20_000
    (found,) = variants(tokenizer, ["sees"] * total, p=p, count=1)
    counts = Counter(tuple(tokenizer.pieces(ids)) for ids in found)
    assert counts.keys() <= expected.keys()
    for outcome, chance in expected.items():
        deviation = np.sqrt(total * chance * (1 - chance))
        assert abs(counts[outcome] - total * chance) < 5 * deviation + 1, outcome


def test_draws_are_the_same_on_every_machine():
    """A change here gives the same recipe another token store."""
    tokenizer = Tokenizer.train(CORPUS, TokenizerConfig(vocab_size=500))
    found = variants(tokenizer, CORPUS, p=0.1)
    assert hashlib.sha256(repr(found).encode()).hexdigest()[:16] == "8cc2844ad32caf81"


def test_unigram_is_refused():
    unigram = Tokenizer.train(CORPUS, TokenizerConfig(kind="unigram", vocab_size=500))
    with pytest.raises(ModelError, match="BPE"):
        BPEDropout(unigram, 0.1, 0)


def test_rules():
    def problems(**keys):
        return " ".join(TokenizerConfig(**keys).problems())

    assert not problems(bpe_dropout=0.1)
    assert "probability" in problems(bpe_dropout=1.1)
    assert "only kind 'bpe'" in problems(bpe_dropout=0.1, kind="unigram")


def content(store):
    return {path.name: path.read_bytes() for path in store.folder.iterdir()}


def test_store_holds_the_variants(tmp_path, corpus, tokenizers, store):
    split = TokenStore.build(tmp_path, corpus, tokenizers, variants=SPLIT)
    assert split.num_variants == 3
    assert len(split) == len(store)
    assert split.line_numbers.tolist() == store.line_numbers.tolist()
    seen = []
    for number in range(3):
        variant = split.variant(number)
        assert variant.source_lengths.sum() > 1.05 * store.source_lengths.sum()
        assert variant.target_lengths.sum() > 1.05 * store.target_lengths.sum()
        rows = range(len(store))
        assert tokenizers.source.decode(map(variant.source, rows)) == tokenizers.source.decode(
            map(store.source, rows)
        )
        assert tokenizers.target.decode(map(variant.target, rows)) == tokenizers.target.decode(
            map(store.target, rows)
        )
        assert [len(variant.source(row)) + 1 for row in rows] == variant.source_lengths[:].tolist()
        seen.append([variant.source(row).tolist() for row in rows])
    assert seen[0] != seen[1] != seen[2]
    assert split.report.num_source_tokens == split.source_lengths.sum() - len(store)


def test_store_is_a_function_of_recipe_and_text(tmp_path, corpus, tokenizers, monkeypatch):
    one = TokenStore.build(tmp_path / "1", corpus, tokenizers, variants=SPLIT)
    monkeypatch.setattr(store_writer, "_CHUNK_PAIRS", 7)
    again = TokenStore.build(tmp_path / "2", corpus, tokenizers, variants=SPLIT)
    assert content(one) == content(again)
    assert one.folder.name == again.folder.name
    names = {one.folder.name}
    for change in ({"seed": 6}, {"bpe_dropout": 0.2}, {"num_variants": 2}):
        other = TokenStore.build(
            tmp_path / "1", corpus, tokenizers, variants=replace(SPLIT, **change)
        )
        names.add(other.folder.name)
        differs = content(other)["source.ids"] != content(one)["source.ids"]
        assert differs == ("num_variants" not in change)
    assert len(names) == 4


def test_equal_words_on_both_sides_are_cut_each_by_its_own_chance(tmp_path):
    (tmp_path / "same").write_text("unbelievable dog house\n" * 200)
    corpus = ParallelCorpus("train", source=tmp_path / "same", target=tmp_path / "same")
    both = Tokenizer.train(CORPUS, TokenizerConfig(vocab_size=500))
    store = TokenStore.build(tmp_path, corpus, TokenizerPair(both, both), variants=SPLIT)
    equal = [store.source(row).tolist() == store.target(row).tolist() for row in range(200)]
    assert sum(equal) < 100


def test_a_pair_is_kept_if_it_fits_in_every_variant(tmp_path, corpus, tokenizers):
    every = TokenStore.build(tmp_path, corpus, tokenizers, variants=SPLIT)
    longest = np.zeros(len(every), np.int64)
    for variant in map(every.variant, range(3)):
        longest = np.maximum(longest, variant.source_lengths[:])
        longest = np.maximum(longest, variant.target_lengths[:] - 1)
    limit = int(np.median(longest))
    short = TokenStore.build(tmp_path, corpus, tokenizers, variants=SPLIT, max_length=limit)
    assert short.line_numbers.tolist() == every.line_numbers[longest <= limit].tolist()


def test_from_recipe_without_dropout_the_seed_plays_no_part():
    plain = AugmentationConfig()
    assert Variants.of(TokenizerConfig(), plain, 8, 7) == Variants()
    assert Variants.of(TokenizerConfig(bpe_dropout=0.1), plain, 8, 7) == Variants(
        bpe_dropout=0.1, num_variants=8, seed=7
    )
