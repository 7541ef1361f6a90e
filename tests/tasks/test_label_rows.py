"""Rows of labelled texts: each word has its label, each text a token, whatever the vocabulary."""

from __future__ import annotations

import pytest
import tokenizers
from tokenizers import models, normalizers, pre_tokenizers

from gnomon.errors import DataError
from gnomon.tasks.label_rows import NO_LABEL, RowMaker
from gnomon.text import PretrainedTokenizer
from gnomon.text.labelled import Labelled
from gnomon.text.pretrained import TokenizerRoles


def bert_like() -> PretrainedTokenizer:
    """Lower case, no control characters; nothing around a text."""
    vocab = {word: index for index, word in enumerate(("[PAD]", "[UNK]", "dog", "pen", "?"))}
    shell = tokenizers.Tokenizer(models.WordLevel(vocab, unk_token="[UNK]"))
    shell.normalizer = normalizers.BertNormalizer(lowercase=True)
    shell.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return PretrainedTokenizer(shell.to_str(), TokenizerRoles(pad=0, unk=1))


def blanks_belong_to_words() -> PretrainedTokenizer:
    """Bytes, of which " dog" and " pen" are one token and the same without a blank three."""
    pieces = [*"dogpen", "Ġ", "Ġd", "Ġdo", "Ġdog", "Ġp", "Ġpe", "Ġpen"]
    vocab = {piece: index for index, piece in enumerate(dict.fromkeys(["<pad>", *pieces]))}
    merges = [("Ġ", "d"), ("Ġd", "o"), ("Ġdo", "g"), ("Ġ", "p"), ("Ġp", "e"), ("Ġpe", "n")]
    shell = tokenizers.Tokenizer(models.BPE(vocab, merges))
    shell.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return PretrainedTokenizer(shell.to_str(), TokenizerRoles(pad=0))


def test_a_word_that_the_vocabulary_passes_over_has_a_label() -> None:
    maker = RowMaker(bert_like(), ["A", "T", "N"], "words", None)
    words = ["dog", "\u200b", "pen", "\x07", "\ufffd"]
    labels = ("A", "N", "T", "N", "N")
    (row,) = maker.rows([Labelled(1, " ".join(words), None, labels)])
    assert [label for label in row.labels if label != NO_LABEL] == [0, 2, 1, 2, 2]
    assert list(row.ids) == [2, 4, 3, 4, 4]


@pytest.mark.parametrize("most", [4, 5, 9])
def test_a_window_whose_first_word_grows_loses_no_word(most: int) -> None:
    maker = RowMaker(blanks_belong_to_words(), ["A", "T"], "words", most)
    words = ["dog", "pen", "pen"] * 7
    labels = tuple("A" if word == "dog" else "T" for word in words)
    rows = maker.rows([Labelled(1, " ".join(words), None, labels)])
    found = [label for row in rows for label in row.labels if label != NO_LABEL]
    assert found == [int(label == "T") for label in labels]
    assert max(len(row.ids) for row in rows) <= most
    assert {row.text for row in rows} == {0}


def test_words_that_no_token_tells_apart_are_refused() -> None:
    shell = tokenizers.Tokenizer(models.WordLevel({"? ?": 1, "[UNK]": 0}, unk_token="[UNK]"))
    framing = PretrainedTokenizer(shell.to_str(), TokenizerRoles(unk=0))
    with pytest.raises(DataError, match="text 1, word 1"):
        RowMaker(framing, ["A"], "words", None).rows([Labelled(1, "dog pen", None, ("A", "A"))])


@pytest.mark.parametrize("kind", ["single", "multi", "words"])
def test_a_blank_text_without_special_tokens_is_a_row(kind: str) -> None:
    maker = RowMaker(bert_like(), ["A", "T"], kind, None)  # type: ignore[arg-type]
    rows = maker.rows([Labelled(1, "", None, ()), Labelled(2, "dog", None, ("A",))])
    assert [list(row.ids) for row in rows] == [[0], [2]]
    assert len(rows[0].labels) == {"single": 0, "multi": 2, "words": 1}[kind]


@pytest.mark.parametrize("most", [3, 7, 12, 100])
def test_what_is_cut_of_two_texts_is_counted_once(most: int) -> None:
    framing = bert_like()
    first, second = ["dog " * 9, "dog", ""], ["pen " * 5, "pen " * 30, "pen"]
    whole, short = framing.frame(first, second), framing.frame(first, second, max_length=most)
    for one, other in zip(whole, short, strict=True):
        assert other.cut == len(one.ids) - len(other.ids) == max(0, len(one.ids) - most)


def test_rows_are_little_more_than_their_ids() -> None:
    """All texts' rows are in memory while a classifier is trained."""
    import tracemalloc

    examples = [Labelled(n, "dog pen " * 100, None, ("A",)) for n in range(300)]
    maker = RowMaker(bert_like(), ["A", "T"], "single", None)
    tracemalloc.start()
    rows = maker.rows(examples)
    kept = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert sum(len(row.ids) for row in rows) == 60_000
    assert kept < 60_000 * 10, f"{kept / 60_000:.1f} bytes a token"
