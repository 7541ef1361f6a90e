"""The store holds what the tokenizer said, is built once, and is never taken for whole if not."""

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from gnomon.errors import DataError
from gnomon.text import ParallelCorpus, TokenizerConfig, TokenizerPair, TokenStore, store_writer
from gnomon.text.ragged import Ragged


def test_content_is_what_the_tokenizer_says(store, corpus, tokenizers):
    pairs = {pair.line: pair for pair in corpus.pairs()}
    assert len(store) == 498
    assert list(store.line_numbers) == [n for n in range(1, 501) if n not in (8, 10)]
    for index, line in enumerate(store.line_numbers.tolist()):
        (source,) = tokenizers.source.encode([pairs[line].source])
        (target,) = tokenizers.target.encode([pairs[line].target])
        assert store.source(index).tolist() == source
        assert store.target(index).tolist() == target
        assert store.source_lengths[index] == len(source) + 1
        assert store.target_lengths[index] == len(target) + 2
    assert store.source(0).dtype == np.uint16
    rows = np.array([5, 2, 400])
    assert store.sources(rows).tolist() == [i for row in rows for i in store.source(row).tolist()]
    assert store.targets(rows).tolist() == [i for row in rows for i in store.target(row).tolist()]


def test_report(store):
    report = store.report
    assert report.num_pairs == 498
    assert report.omitted["empty side"].count == 2
    assert report.omitted["empty side"].first_lines == [8, 10]
    assert report.num_source_tokens == store.source_lengths.sum() - 498
    assert report.num_target_tokens == store.target_lengths.sum() - 2 * 498
    assert report.num_source_unknown == 0
    assert TokenStore(store.folder).report == report


def test_unknown_tokens_are_counted(tmp_path, corpus):
    config = TokenizerConfig(vocab_size=400, byte_fallback=False)
    blind = TokenizerPair.train(["dog house", "dog house"], ["dog house"], config)
    report = TokenStore.build(tmp_path, corpus, blind).report
    assert 0 < report.num_source_unknown < report.num_source_tokens


def test_built_once_per_content(tmp_path, corpus, tokenizers):
    def build(corpus=corpus, tokenizers=tokenizers, **options):
        store = TokenStore.build(tmp_path, corpus, tokenizers, **options)
        return store.folder, store.origin

    folder, origin = build()
    assert (origin, build()) == ("built", (folder, "reused"))
    other = TokenizerPair.train(corpus.sources, corpus.targets, TokenizerConfig(vocab_size=265))
    folders = {
        folder,
        build(max_length=50)[0],
        build(tokenizers=other)[0],
        build(corpus=corpus.select("train", np.arange(100)))[0],
    }
    assert len(folders) == 4
    assert build() == (folder, "reused")


def test_chunks_do_not_show(tmp_path, corpus, tokenizers, store, monkeypatch):
    seen = []
    monkeypatch.setattr(store_writer, "_CHUNK_PAIRS", 7)
    chunked = TokenStore.build(tmp_path, corpus, tokenizers, progress=seen.append)
    assert seen == [*range(7, 500, 7), 500]
    for name in ("source.ids", "target.ids", "source.offsets", "line_numbers"):
        assert (chunked.folder / name).read_bytes() == (store.folder / name).read_bytes()


def test_too_long_pairs_are_counted_or_refused(tmp_path, corpus, tokenizers, store):
    longest = np.maximum(store.source_lengths[:], store.target_lengths[:] - 1)
    limit = int(np.median(longest))
    short = TokenStore.build(tmp_path, corpus, tokenizers, max_length=limit)
    assert len(short) == (longest <= limit).sum()
    omission = short.report.omitted[f"more than {limit} tokens"]
    lines = store.line_numbers[longest > limit]
    assert omission.count == len(lines)
    assert omission.first_lines == lines[:5].tolist()
    with pytest.raises(DataError, match=rf"line {lines[0]}:"):
        TokenStore.build(tmp_path, corpus, tokenizers, max_length=limit, on_too_long="error")


def test_nothing_left(tmp_path, corpus, tokenizers):
    with pytest.raises(DataError, match="498 more than 1 tokens"):
        TokenStore.build(tmp_path, corpus, tokenizers, max_length=1)
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


def test_wide_ids(tmp_path):
    """A vocabulary beyond 16 bits takes 32."""
    with ExitStack() as files:
        writer = store_writer._SideWriter(tmp_path, "source", 70_000, 1)
        writer.open(files)
        writer.write([Ragged.of([[65_535, 65_536], [69_999]])])
    assert np.fromfile(tmp_path / "source.ids", "<u4").tolist() == [65_535, 65_536, 69_999]
    with ExitStack() as files, pytest.raises(AssertionError):
        writer = store_writer._SideWriter(tmp_path, "target", 10, 1)
        writer.open(files)
        writer.write([Ragged.of([[10]])])


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: os.truncate(folder / "source.ids", 101),
        lambda folder: (folder / "target.offsets").unlink(),
        lambda folder: (folder / "manifest.json").write_text("{"),
        lambda folder: (folder / "manifest.json").write_text("[]"),
        lambda folder: (folder / "manifest.json").write_text('{"format_version": 1}'),
        lambda folder: (folder / "manifest.json").unlink(),
        lambda folder: (folder / "source.offsets").write_bytes(
            bytes((folder / "source.offsets").stat().st_size)
        ),
        *(
            lambda folder, name=name: _flip_a_bit(folder / name)
            for name in (
                *("source.ids", "target.ids", "source.offsets", "target.offsets"),
                *("line_numbers", "manifest.json"),
            )
        ),
    ],
)
def test_damage_is_seen_and_mended_by_building(tmp_path, corpus, tokenizers, damage):
    store = TokenStore.build(tmp_path, corpus, tokenizers)
    tokens = store.source(5).tolist()
    damage(store.folder)
    with pytest.raises(DataError):
        TokenStore(store.folder)
    again = TokenStore.build(tmp_path, corpus, tokenizers)
    assert again.origin == "rebuilt"
    assert again.damage
    assert again.source(5).tolist() == tokens


def _flip_a_bit(path):
    content = bytearray(path.read_bytes())
    place = len(content) // 2
    if path.suffix == ".json":  # a digit, so that it stays JSON
        place = content.index(b'"count": 2') + len(b'"count": ')
    content[place] ^= 1
    path.write_bytes(content)


def test_another_version_is_refused(tmp_path, corpus, tokenizers):
    store = TokenStore.build(tmp_path, corpus, tokenizers)
    manifest = {**store.manifest, "format_version": 99}
    (store.folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(DataError, match="format"):
        TokenStore(store.folder)


def test_a_store_that_cannot_be_written(tmp_path, corpus, tokenizers):
    (tmp_path / "file").touch()
    with pytest.raises(DataError, match="written whole"):
        TokenStore.build(tmp_path / "file", corpus, tokenizers)


def test_processes_building_at_once(tmp_path, corpus, tokenizers):
    tokenizers.save(tmp_path)
    script = (
        "import sys\n"
        "from gnomon.text import ParallelCorpus, TokenizerPair, TokenStore\n"
        "folder, source, target = sys.argv[1:]\n"
        "corpus = ParallelCorpus('train', source=source, target=target)\n"
        "tokenizers = TokenizerPair.load(folder)\n"
        "sys.stdin.read()\n"  # all wait here, so that they build at the same time
        "store = TokenStore.build(folder, corpus, tokenizers)\n"
        "print(store.origin, sum(store.source(i).sum() for i in range(len(store))))\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path), *map(str, corpus.files)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, **pipes) for _ in range(4)]
    for process in processes:
        process.stdin.close()
    outputs = [process.stdout.read().split() for process in processes]
    assert [process.wait() for process in processes] == [0] * 4
    assert sorted(origin for origin, _ in outputs) == ["built", "reused", "reused", "reused"]
    assert len({tokens for _, tokens in outputs}) == 1


def test_separate_vocabularies(tmp_path, corpus):
    config = TokenizerConfig(vocab_size=300, joint=False)
    pair = TokenizerPair.train(corpus.sources, corpus.targets, config)
    store = TokenStore.build(tmp_path, corpus, pair)
    assert pair.target.decode([store.target(0)]) == [next(iter(corpus.targets))]


def test_hostile_lines_go_through(tmp_path, tokenizers):
    lines = [("x" * 1_000_000, "y"), ("a\u2028b", "\ufeffc"), ("</s>", "<0x0A>"), ("\r", "\v")]
    text = "".join(f"{source}\t{target}\r\n" for source, target in lines)
    (tmp_path / "hostile.tsv").write_bytes(text.encode())
    corpus = ParallelCorpus("train", pairs=tmp_path / "hostile.tsv")
    store = TokenStore.build(tmp_path, corpus, tokenizers)
    assert store.line_numbers.tolist() == [1, 2, 3]
    assert store.report.omitted["empty side"].first_lines == [4]
    (back,) = tokenizers.source.decode([store.source(1)])
    assert back == "a\u2028b"


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="needs Linux")
def test_released_pages_leave_the_process_and_come_back(store):
    def resident():
        return sum(
            int(line.split()[1])
            for part in Path("/proc/self/smaps").read_text().split(str(store.folder))[1:]
            for line in part.split("VmFlags")[0].splitlines()
            if line.startswith("Rss:")
        )

    rows = np.arange(len(store))
    before = store.sources(rows)
    assert resident() > 0
    store.release()
    assert resident() == 0
    assert np.array_equal(store.sources(rows), before)
