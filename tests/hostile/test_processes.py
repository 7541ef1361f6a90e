"""Processes that die, collide or find the disk full in the midst of building a store."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from digits import TrainedRun
from gnomon.errors import DataError
from gnomon.text import (
    CleaningConfig,
    Pair,
    ParallelCorpus,
    TokenizerConfig,
    TokenizerPair,
    TokenStore,
    clean,
)
from gnomon.text.lines import in_step, read_lines

# Builds a store slowly, so that it can be disturbed; says when it has begun and what it read.
BUILD = """
import sys, time
from gnomon.text import CleaningConfig, ParallelCorpus, TokenizerPair, TokenStore, clean
import gnomon.text.cleaning_pass, gnomon.text.store_writer
folder, data, pause = sys.argv[1], sys.argv[2], float(sys.argv[3])
gnomon.text.cleaning_pass._CHUNK_PAIRS = gnomon.text.store_writer._CHUNK_PAIRS = 50
print("begun", flush=True)
sys.stdin.readline()
corpus = clean(ParallelCorpus("train", pairs=data), CleaningConfig(), folder).corpus
def progress(n):
    print(n, flush=True)
    time.sleep(pause)
store = TokenStore.build(folder, corpus, TokenizerPair.load(folder), progress=progress)
print(store.origin, len(store), sum(int(store.source(i).sum()) for i in range(len(store))))
"""


@pytest.fixture
def place(tmp_path: Path) -> tuple[Path, Path]:
    """A folder with a vocabulary, and pairs to encode."""
    data = tmp_path / "pairs.tsv"
    data.write_text("".join(f"line {i}\tZeile {i}\n" for i in range(1000)), "utf-8")
    corpus = ParallelCorpus("train", pairs=data)
    pair = TokenizerPair.train(corpus.sources, corpus.targets, TokenizerConfig(vocab_size=300))
    (tmp_path / "cache").mkdir()
    pair.save(tmp_path / "cache")
    return tmp_path / "cache", data


def _start(place: tuple[Path, Path], pause: float = 0.0) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", BUILD, *map(str, place), str(pause)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    return process


def test_two_writers_and_one_killed_in_the_midst(place: tuple[Path, Path]) -> None:
    killed, first, second = (_start(place, pause) for pause in (0.05, 0.0, 0.0))
    assert killed.stdin is not None and killed.stdout is not None
    killed.stdin.write("\n")
    killed.stdin.flush()
    assert killed.stdout.readline() == "50\n"  # has the lock, and written a part
    results = []
    for process in (first, second):
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    time.sleep(0.1)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    for process in (first, second):
        out, message = process.communicate(timeout=120)
        assert process.returncode == 0, message
        results.append(out.split("\n")[-2].split())
    assert sorted(origin for origin, *_ in results) == ["built", "reused"]
    assert len({tuple(rest) for _, *rest in results}) == 1
    assert results[0][1] == "1000"


def test_a_disk_that_fills_up(place: tuple[Path, Path]) -> None:
    """A limit on the size of a file is met as a full disk is: writing fails half way."""
    cache, data = place
    corpus = ParallelCorpus("train", pairs=data)
    tokenizers = TokenizerPair.load(cache)
    before = sorted(path.name for path in cache.iterdir() if not path.name.endswith(".lock"))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, hard))
    try:
        with pytest.raises(DataError, match="written whole"):
            clean(corpus, CleaningConfig(), cache)
        with pytest.raises(DataError, match="written whole"):
            TokenStore.build(cache, corpus, tokenizers)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    after = sorted(path.name for path in cache.iterdir() if not path.name.endswith(".lock"))
    assert after == before
    assert len(TokenStore.build(cache, corpus, tokenizers)) == 1000


def test_text_that_changes_while_it_is_read(place: tuple[Path, Path]) -> None:
    cache, data = place
    corpus = clean(
        ParallelCorpus("train", pairs=data), CleaningConfig(duplicate_source="drop"), cache
    ).corpus
    with data.open("a") as file:
        file.write("\t5\n")
    with pytest.raises(DataError, match="must not change while it is read"):
        list(in_step(read_lines(data), iter(range(1000))))
    changed = clean(ParallelCorpus("train", pairs=data), CleaningConfig(), cache)
    assert changed.corpus.num_lines == 1001  # another text has other verdicts
    assert changed.report.findings["empty_side"].lines == [1001]

    def shorter() -> Iterator[Pair]:
        yield Pair(1, "a", "b")

    sieve = changed.corpus._sieve
    assert sieve is not None
    with pytest.raises(DataError, match="must not change while it is read"):
        list(sieve.apply(shorter()))
    assert corpus.num_lines == 1000


def test_standard_input_that_is_closed(trained_run: TrainedRun, tmp_path: Path) -> None:
    arguments = ["-o", "out.txt"]
    command = f'exec "{sys.executable}" -m gnomon translate "$0" "$@" <&-'
    done = subprocess.run(
        ["bash", "-c", command, str(trained_run.path), *arguments],
        cwd=tmp_path,
        capture_output=True,
        env=os.environ,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert b"Traceback" not in done.stderr
    assert b"standard input must be open" in done.stderr
    assert list(tmp_path.iterdir()) == []
