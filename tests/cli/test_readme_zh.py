"""The Chinese README keeps step with the English one: same shape, commands, links and figures."""

import re
from pathlib import Path

import pytest

HOME = Path(__file__).parents[2]
ENGLISH = (HOME / "README.md").read_text("utf-8")
CHINESE = (HOME / "README.zh.md").read_text("utf-8")


def headings(text: str) -> list[int]:
    """Levels of the headings, in order."""
    return [len(marks) for marks in re.findall(r"^(#+) ", without_code(text), re.MULTILINE)]


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def code(text: str) -> list[str]:
    """Code blocks without their comments, which are translated."""
    blocks = re.findall(r"^```(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [re.sub(r" *# .*", "", block) for block in blocks]


def inline_code(text: str) -> list[str]:
    return sorted(set(re.findall(r"`([^`\n]+)`", without_code(text))))


def links(text: str) -> list[str]:
    return sorted(re.findall(r"\]\(((?!README)[^)]+)\)", text))


def table_figures(text: str) -> list[list[str]]:
    """The figures of every table row, in order."""
    rows = re.findall(r"^\|.*\|$", without_code(text), re.MULTILINE)
    return [re.findall(r"\d[\d,.]*", row) for row in rows]


@pytest.mark.parametrize("read", [headings, code, inline_code, links, table_figures])
def test_both_say_the_same(read):
    assert read(CHINESE) == read(ENGLISH)


def test_each_names_the_other():
    assert "](README.zh.md)" in ENGLISH
    assert "](README.md)" in CHINESE


def test_it_is_chinese():
    """Every paragraph outside code, tables and lists of names holds Chinese characters."""
    for paragraph in without_code(CHINESE).split("\n\n"):
        if paragraph.strip() and paragraph.strip() not in (
            "# gnomon",
            "Apache-2.0.",
            "[English](README.md)",
        ):
            assert re.search(r"[\u4e00-\u9fff]", paragraph), paragraph
