"""Writes the documentation's pages of all checks: `python -m gnomon.doctor.reports.pages`."""

from __future__ import annotations

from pathlib import Path

from gnomon.doctor.check import GROUPS, SYMPTOMS, all_checks
from gnomon.doctor.reports.case_page import case_page
from gnomon.doctor.reports.page import check_page
from gnomon.files import write_atomically

FOLDER = Path("docs/reference/checks")


def pages() -> dict[str, str]:
    """File name to text: one page a check, an index by group and by symptom, and the case's."""
    checks = all_checks()
    found = {f"{code}.md": check_page(each) for code, each in checks.items()}
    lines = [
        "# Checks",
        "",
        "Every check of [the doctor](../../how-to/doctor.md), written from the checks' own files. "
        "Each page holds a minimal faulty example and its mended form, both run by the tests.",
        "",
        "| check | group | cost | what holds where it passes |",
        "| --- | --- | --- | --- |",
    ]
    lines += [
        f"| [{code}]({code}.md) | {each.group} | {each.cost} | {each.title} |"
        for code, each in checks.items()
    ]
    lines += ["", "## Groups", "", "| group | what it is about |", "| --- | --- |"]
    lines += [f"| {group} | {about} |" for group, about in GROUPS.items()]
    lines += [
        "",
        "## By symptom",
        "",
        "| `--symptom` | what is seen | checks |",
        "| --- | --- | --- |",
    ]
    for symptom, seen in SYMPTOMS.items():
        links = [f"[{c}]({c}.md)" for c, each in checks.items() if symptom in each.symptoms]
        lines.append(f"| {symptom} | {seen} | {', '.join(links)} |")
    found["case.md"] = case_page()
    found["index.md"] = "\n".join(lines) + "\n"
    return found


def write_pages(folder: Path) -> None:
    """Write all pages, and remove those of checks that are no more."""
    found = pages()
    for path in folder.glob("*.md"):
        if path.name not in found:
            path.unlink()
    for name, text in found.items():
        write_atomically(folder / name, text)


if __name__ == "__main__":
    write_pages(FOLDER)
