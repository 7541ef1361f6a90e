"""A tag is one id that nothing but naming it can produce, and a model folder knows its own."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnomon.errors import DataError
from gnomon.text import (
    DataConfig,
    ParallelCorpus,
    SourceConfig,
    Tokenizer,
    TokenizerConfig,
    TokenizerPair,
    TokenStore,
    open_corpora,
)
from gnomon.text.sources import tag_problems

TAGS = ("<2de>", "<news>", "<a.b+c:/-_9>")
# The text spells the tags so often that a trainer that saw them would learn them.
LINES = [f"<2de> go <news> to {n} <2de><2de> <a.b+c:/-_9> 2de> <2de" for n in range(300)]
KINDS = {
    "bpe": TokenizerConfig(vocab_size=500),
    "unigram": TokenizerConfig(vocab_size=330, kind="unigram"),
    "lowercase": TokenizerConfig(vocab_size=500, lowercase=True, normalization="nfkc"),
    "no bytes": TokenizerConfig(vocab_size=300, byte_fallback=False),
}


@pytest.fixture(scope="module", params=KINDS)
def trained(request):
    config = KINDS[request.param]
    return config, Tokenizer.train(LINES, config, TAGS)


def test_tags_stand_behind_the_reserved_ids(trained):
    config, tokenizer = trained
    first = config.num_reserved
    assert tokenizer.tags == TAGS
    assert tokenizer.tag_ids(TAGS) == [first, first + 1, first + 2]
    assert tokenizer.tag_ids(["<news>", "<2de>"]) == [first + 1, first]
    assert tokenizer.pieces(tokenizer.tag_ids(TAGS)) == list(TAGS)
    assert tokenizer.vocab_size <= config.vocab_size


def test_text_never_becomes_a_tag(trained):
    config, tokenizer = trained
    ids = set(tokenizer.tag_ids(TAGS))
    texts = [*LINES, "<2DE>", "＜2de＞", "<2de>", " <2de> ", "<<2de>>", "x<news>y", "".join(TAGS)]
    for text, encoded in zip(texts, tokenizer.encode(texts), strict=True):
        assert not ids & set(encoded), text
        if config.byte_fallback:
            assert tokenizer.decode([encoded]) == [tokenizer.normalise(text)]


spelling = st.lists(st.sampled_from([*TAGS, "<", ">", "2de", "a", " ", "</s>", "<0x41>"]))


@settings(deadline=None)
@given(spelling.map("".join))
def test_no_spelling_becomes_a_tag(text):
    tokenizer = ANY
    (encoded,) = tokenizer.encode([text])
    assert not set(tokenizer.tag_ids(TAGS)) & set(encoded)
    assert tokenizer.decode([encoded]) == [tokenizer.normalise(text)]


ANY = Tokenizer.train(LINES, KINDS["unigram"], TAGS)


def test_decoding_leaves_tags_out(trained):
    _, tokenizer = trained
    (ids,) = tokenizer.encode(["go to <2de>"])
    assert tokenizer.decode([[*tokenizer.tag_ids(TAGS), *ids]]) == ["go to <2de>"]


def test_tags_come_back_from_disk(trained, tmp_path):
    _, tokenizer = trained
    tokenizer.save(tmp_path / "tokenizer.json")
    loaded = Tokenizer.load(tmp_path / "tokenizer.json")
    assert loaded.tags == TAGS
    assert loaded.tag_ids(TAGS) == tokenizer.tag_ids(TAGS)
    assert loaded.encode(LINES[:5]) == tokenizer.encode(LINES[:5])


def test_other_programs_that_read_the_file_put_no_tag_in_front(trained):
    import tokenizers

    _, tokenizer = trained
    other = tokenizers.Tokenizer.from_str(tokenizer._serialized)
    assert other.encode(LINES[0]).ids == tokenizer.encode(LINES[:1])[0]


def test_without_tags_the_file_is_as_it_was():
    assert "special_tokens" not in Tokenizer.train(LINES, KINDS["bpe"])._serialized


def test_unknown_tags_are_told_with_the_known_ones(trained):
    _, tokenizer = trained
    with pytest.raises(DataError, match=r"<2fr>(.|\n)*<2de>, <news>, <a.b"):
        tokenizer.tag_ids(["<2de>", "<2fr>"])
    with pytest.raises(DataError, match="this model has none"):
        Tokenizer.train(LINES, KINDS["bpe"]).tag_ids(["<2de>"])


def test_separate_vocabularies_have_tags_on_the_source_side_only():
    pair = TokenizerPair.train(LINES, LINES, TokenizerConfig(vocab_size=500, joint=False), TAGS)
    assert (pair.source.tags, pair.target.tags) == (TAGS, ())


@pytest.mark.parametrize(
    "tag", ["2de", "<>", "<s>", "</s>", "<pad>", "<0x4A>", "<a b>", "<a", "<é>", "<<a>>", "<a>\n"]
)
def test_what_is_no_tag(tag):
    assert tag_problems([tag])
    assert (
        "data.sources[0].tags"
        in (DataConfig(sources=(SourceConfig(pairs="x", tags=(tag,)),)).problems()[0])
    )


@pytest.fixture
def two_directions(tmp_path):
    for name, rows in (("de", "a\tA\nb\tB\n"), ("fr", "a\tAA\nb\tBB\nc\tCC\n")):
        (tmp_path / name).write_text(rows)
    return tmp_path


def test_sources_carry_their_tags_into_the_store(two_directions, tmp_path):
    sources = (
        SourceConfig(pairs=str(two_directions / "de"), tags=("<2de>", "<news>")),
        SourceConfig(pairs=str(two_directions / "fr"), tags=()),
    )
    config = DataConfig(sources=sources, holdout=0)
    train = open_corpora(config).train
    assert isinstance(train, ParallelCorpus)
    assert train.tag_sets == (("<2de>", "<news>"), ())
    assert [pair.tags for pair in train.pairs()] == [("<2de>", "<news>")] * 2 + [()] * 3
    assert [pair.line for pair in train.pairs()] == [1, 2, 3, 4, 5]
    tokenizers = TokenizerPair.train(train.sources, train.targets, KINDS["bpe"], config.tags)
    store = TokenStore.build(tmp_path / "store", train, tokenizers)
    ids = tokenizers.source.tag_ids(["<2de>", "<news>"])
    plain = tokenizers.source.encode(["a", "b", "c"])
    assert [store.source(n).tolist() for n in range(5)] == [
        [*ids, *plain[0]],
        [*ids, *plain[1]],
        *plain,
    ]
    assert np.array_equal(store.line_numbers, [1, 2, 3, 4, 5])


def test_tags_count_towards_the_longest_source(two_directions, tmp_path):
    source = SourceConfig(pairs=str(two_directions / "de"), tags=("<2de>", "<news>"))
    config = DataConfig(sources=(source,), holdout=0)
    train = open_corpora(config).train
    tokenizers = TokenizerPair.train(LINES, LINES, KINDS["bpe"], config.tags)
    longest = max(len(ids) for ids in tokenizers.source.encode(["a", "b"])) + 2 + 1
    assert len(TokenStore.build(tmp_path, train, tokenizers, max_length=longest)) == 2
    with pytest.raises(DataError, match=r"de, line \d"):
        TokenStore.build(tmp_path, train, tokenizers, max_length=longest - 1, on_too_long="error")


def test_places_are_named_in_their_own_file(two_directions):
    sources = (
        SourceConfig(pairs=str(two_directions / "de"), name="German"),
        SourceConfig(pairs=str(two_directions / "fr")),
    )
    corpus = open_corpora(DataConfig(sources=sources, holdout=0)).train
    assert corpus.place(2) == f"{two_directions / 'de'}, line 2"
    assert corpus.place(3) == f"{two_directions / 'fr'}, line 1"
    assert corpus.places([1, 2, 5], 9) == f"German lines 1, 2; {two_directions / 'fr'} lines 3 …"


def test_what_sources_must_be():
    good = SourceConfig(pairs="x")
    for config, fault in (
        (DataConfig(pairs="a", sources=(good,)), "data.pairs cannot stand beside"),
        (DataConfig(valid_source="a", valid=(good,)), "data.valid_source cannot stand beside"),
        (DataConfig(sources=(SourceConfig(),)), "source (or pairs) is missing"),
        (DataConfig(sources=(good, SourceConfig(source="a"))), "sources[1].target is missing"),
        (DataConfig(sources=(SourceConfig(pairs="a", source="b"),)), "cannot stand beside"),
        (DataConfig(sources=(SourceConfig(pairs="a", weight=0.0),)), "weight must be above 0"),
        (DataConfig(sources=(SourceConfig(pairs="a", weight=float("nan")),)), "weight must be"),
        (DataConfig(sources=(SourceConfig(pairs="a", weight=1e9),)), "weight must be at most 1000"),
        (DataConfig(test=(SourceConfig(pairs="a", weight=2.0),)), "data.test[0].weight"),
        (DataConfig(sources=(SourceConfig(pairs="a", tags=("<a>", "<a>")),)), "each tag once"),
    ):
        problems = config.problems()
        assert len(problems) == 1, problems
        assert fault in problems[0]
    assert DataConfig(sources=(good,), valid=(good,), test_pairs="x").problems() == []
