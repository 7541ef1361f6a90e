"""Which texts are the same text: what a store of documents is known by."""

from __future__ import annotations

import shutil
from pathlib import Path

from gnomon.text import Tokenizer, VocabularyConfig
from gnomon.text.document_files import DocumentsConfig, DocumentSource
from gnomon.text.document_store import DocumentStore
from gnomon.text.framing import OwnFraming
from gnomon.text.vocabulary import Vocabulary


def source(path: Path, **config: str) -> DocumentSource:
    return DocumentSource(DocumentsConfig(train=str(path), **config), "train", path)  # type: ignore[arg-type]


def test_a_copy_under_another_name_is_the_same_text(tmp_path: Path) -> None:
    one, other = tmp_path / "a.txt", tmp_path / "elsewhere.py"
    one.write_text("x = 1\ny = 2\n")
    shutil.copyfile(one, other)
    assert list(source(one)) == list(source(other))
    assert source(one).fingerprint == source(other).fingerprint
    other.write_text("x = 1\ny = 3\n")
    assert source(one).fingerprint != source(other).fingerprint


def test_the_order_and_borders_of_files_count(tmp_path: Path) -> None:
    found = []
    for number, texts in enumerate((("ab", "c"), ("c", "ab"), ("a", "bc"))):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name, text in zip("12", texts, strict=True):
            (folder / name).write_text(text)
        found.append(source(folder, documents_are="files").fingerprint)
    assert len(set(found)) == 3


def test_what_a_name_says_of_how_it_is_read_counts(tmp_path: Path) -> None:
    """Equal bytes under another ending are other documents, which no store of the first gives."""
    rows = '{"text": "one dog"}\n{"text": "two dogs"}\n'
    plain, table = tmp_path / "rows.txt", tmp_path / "rows.jsonl"
    plain.write_text(rows)
    table.write_text(rows)
    learned = Tokenizer.train([rows] * 9, VocabularyConfig(vocab_size=300))
    vocabulary = Vocabulary(OwnFraming(learned))
    for path, documents in ((plain, rows.splitlines()), (table, ["one dog", "two dogs"])):
        assert list(source(path)) == documents
        store = DocumentStore.build(tmp_path / "stores", source(path), vocabulary)
        assert store.counts.characters == sum(map(len, documents)), path
    assert source(table, format="jsonl").fingerprint == source(plain, format="jsonl").fingerprint
