"""Parallel text as a target: two files, one file of pairs, or a folder that holds splits."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

from gnomon.doctor.patient import Patient
from gnomon.doctor.targets.target import Options, Target
from gnomon.errors import DoctorError
from gnomon.text import SourceConfig
from gnomon.text.text_source import TextSource

_SPLITS = {"train": "", "training": "", "valid": "valid_", "val": "valid_", "dev": "valid_"}
_SPLITS |= {"validation": "valid_", "test": "test_"}
_PAIRS = {".tsv", ".jsonl", ".ndjson", ".parquet"}
_ASIDE = re.compile(r"[._-]")


def given_corpus(options: Options) -> Target:
    """The text that --src and --tgt, or --data, name.

    Raises:
        DoctorError: none is given, or one side alone.
        DataError: a file cannot be read.
    """
    files = options.corpus
    if not files:
        raise DoctorError(
            "something to examine must be named",
            seen="no target and no text",
            mend="name a run, model folder, recipe or file.py:function, or give --src and --tgt",
        )
    if "pairs" not in files and len(files) == 1:
        raise DoctorError(
            "parallel text has two sides",
            seen=f"only {'--src' if 'source' in files else '--tgt'} is given",
            mend="give both --src and --tgt, or one file of pairs with --data",
        )
    if "pairs" in files and len(files) > 1:
        raise DoctorError("text is two files, or one of pairs: give one or the other")
    return _target(" and ".join(str(path) for path in files.values()), files)


def open_pair_file(path: Path) -> Target:
    """One file of pairs: TSV, JSON lines or Parquet."""
    return _target(str(path), {"pairs": path})


def open_text_folder(folder: Path) -> Target | None:
    """A folder with train.en, train.de, valid.en … or train.tsv; None where none of it is there.

    The side whose suffix comes first in the alphabet is taken for the source.
    """
    found: dict[str, Path] = {}
    sides: dict[str, list[Path]] = defaultdict(list)
    for path in sorted(folder.iterdir()):
        name = path.name.removesuffix(".gz")
        split = _SPLITS.get(_ASIDE.split(name)[0].lower())
        if split is None or not path.is_file():
            continue
        if Path(name).suffix in _PAIRS:
            found.setdefault(f"{split}pairs", path)
        else:
            sides[split].append(path)
    for split, paths in sides.items():
        if len(paths) == 2:
            found[f"{split}source"], found[f"{split}target"] = paths
        elif len(paths) > 2:
            raise DoctorError(
                "each split in a folder of text is two files",
                seen=", ".join(path.name for path in paths),
                mend="name the two with --src and --tgt",
            )
    if "source" not in found and "pairs" not in found:
        return None
    if "pairs" in found:  # one form a split
        found.pop("source", None)
        found.pop("target", None)
    return _target(str(folder), found)


def _target(name: str, files: dict[str, Path]) -> Target:
    for prefix in ("", "valid_", "test_"):  # what cannot be read is told before anything is done
        source, target, pairs = (
            str(files[prefix + key]) if prefix + key in files else None
            for key in ("source", "target", "pairs")
        )
        if source or pairs:
            text = TextSource(SourceConfig(source=source, target=target, pairs=pairs))
            next(text.rows(), None)  # a file in another form shows in its first line
    listed = ", ".join(f"{key} {path.name}" for key, path in files.items())
    return Target(
        name=name,
        kind="corpus",
        what=f"parallel text: {listed}",
        patient=Patient(corpus=files),
    )
