"""Reports: SARIF's shape, a page that needs nothing else, documentation that is up to date."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import gnomon
from gnomon.doctor import Finding, Plan, Report, all_checks, examine, plan
from gnomon.doctor.case import Case
from gnomon.doctor.reports import html_page, plan_sentence, report_text, sarif
from gnomon.doctor.reports.pages import FOLDER, pages

ROOT = Path(__file__).parents[3]
TEXT = Finding(
    code="misalignment", group="corpus", title="Line i translates line i", verdict="fail",
    evidence="3 pairs <are> shifted & lost", numbers={"share": float("inf"), "runs": [[1, 2, 1]]},
    where=("/data/train.en, line 12",), cause="a cause", mend="a mend", reference="a book",
)  # fmt: skip
MODEL = Finding(
    code="future-leak", group="masks", title="No position sees a later one", verdict="warn",
    evidence="moved", where=("decoder.layers.0", "head 3 of decoder.layers.1"), mend="hide",
    suppressed="known \x1b[31m",
)  # fmt: skip
PASS = Finding(code="padding-leak", group="masks", title="t", verdict="pass", evidence="fine")
SKIP = Finding(code="reload", group="files", title="t", verdict="skip", evidence="not there")
NONE = Finding(code="cross-padding", group="masks", title="t", verdict="n/a", evidence="one text")
REPORT = Report(
    "<target>",
    (TEXT, MODEL, PASS, SKIP, NONE),
    {"family": "decoder", "causal": True, "known by": "x"},
    pictures={
        "heads": [{"module": "a.0", "entropy": [0.5, None], "padding": [0.0, 1.0]}],
        "gradients": [{"module": "a.0", "norm": 0.0}, {"module": "head", "norm": 2.0}],
        "scores": {"low": -1.0, "high": 2.0, "counts": [3, 0, 1]},
    },
)  # fmt: skip


def test_sarif_has_the_standard_s_shape() -> None:
    log = json.loads(json.dumps(sarif(REPORT), allow_nan=False))
    assert log["version"] == "2.1.0" and log["$schema"].endswith("sarif-2.1.0.json")
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert run["tool"]["driver"]["name"]
    for rule in rules:
        assert rule["id"] and rule["shortDescription"]["text"] and rule["help"]["text"]
    for result in run["results"]:
        assert result["message"]["text"]
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in ("error", "warning", "none")
        assert result["kind"] in ("fail", "pass", "open", "notApplicable")
        # the standard: a level beside a kind other than "fail" is "none"
        assert (result["kind"] == "fail") == (result["level"] != "none")
    text, model, *others = run["results"]
    assert [each["kind"] for each in others] == ["pass", "open", "notApplicable"]
    place = text["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "/data/train.en"
    assert place["region"]["startLine"] == 12
    names = [each["logicalLocations"][0]["fullyQualifiedName"] for each in model["locations"]]
    assert names == list(MODEL.where)
    assert model["suppressions"][0]["justification"].startswith("known")


class _Page(HTMLParser):
    VOID = ("meta", "br", "rect", "line", "link", "img")

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in ("meta",):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_and_needs_nothing_else() -> None:
    text = html_page(REPORT)
    page = _Page()
    page.feed(text)
    assert not page.open, "every element is closed"
    tags = [tag for tag, _ in page.seen]
    assert "script" not in tags and "link" not in tags and "img" not in tags
    assert not re.search(r"https?://|url\(|@import", text)
    assert tags.count("svg") == 4
    assert "not applicable, and why" in text and "one text" in text
    assert "3 pairs &lt;are&gt; shifted &amp; lost" in text and "&lt;target&gt;" in text
    assert "prefers-color-scheme: dark" in text and "@media print" in text


def test_the_page_tells_code_from_words() -> None:
    finding = replace(TEXT, mend="use `a < b`, then c", where=tuple("abcdefg"))
    text = html_page(replace(REPORT, findings=(finding,)))
    assert "use <code>a &lt; b</code>, then c" in text
    assert "<code>e</code> and 2 more" in text
    heading = text[text.index("<h3>") : text.index("</h3>")]
    assert heading.index(TEXT.title) < heading.index("corpus/misalignment")


def test_headings_say_what_is_wrong() -> None:
    """Whatever a check protects: under FAIL and WARN stands what is so, not what should be."""
    torch.manual_seed(0)
    linear = torch.nn.Linear(4, 4)
    optimizer = torch.optim.AdamW([*linear.parameters(), linear.weight])
    report = gnomon.diagnose(linear, optimizer=optimizer, only=["optimizer"])
    checks = all_checks()
    found = report.of("fail", "warn")
    assert found
    for each in found:
        assert each.title == checks[each.code].fault
        assert f"{each.title} {each.group}/{each.code}" in " ".join(report_text(report).split())
    assert all(each.title == checks[each.code].title for each in report.of("pass"))
    for each in checks.values():
        assert each.fault and each.fault != each.title and each.fault[-1] != "."


def test_a_printed_report_is_the_terminal_s_and_short_in_a_repr() -> None:
    assert str(REPORT) == report_text(REPORT)
    assert repr(REPORT).startswith("<Report of <target>: 1 failed") and len(repr(REPORT)) < 200
    assert "a mend" in str(TEXT) and "FAIL" in str(TEXT) and "a book" in str(TEXT)
    assert repr(TEXT) == "<Finding fail corpus/misalignment: Line i translates line i>"
    assert f"[{TEXT!r}]" == repr([TEXT]), "and so in lists"
    assert html_page(REPORT) == REPORT.html()
    shown = REPORT._repr_html_()
    assert unescape(re.search(r'srcdoc="([^"]*)"', shown)[1]) == REPORT.html()  # type: ignore[index]


def test_reasons_for_skips_are_counted() -> None:
    twice = replace(SKIP, code="broken-tie")
    other = replace(SKIP, code="key-prefix", evidence="no names")
    report = Report("x", (SKIP, other, twice))
    assert "skipped: not there (2); no names (1)" in report_text(report)
    assert "skipped: " not in report_text(report, verbose=True), "each is shown there"


def test_the_plan_is_told_in_numbers_that_hold() -> None:
    checks = tuple(all_checks().values())
    assert plan_sentence(Plan(checks[:1], (0.1, 0.3))).startswith("1 check, about a second;")
    assert "about 3 to 9 s" in plan_sentence(Plan(checks, (3.4, 8.2)))
    assert "about 2 to 6 min" in plan_sentence(Plan(checks, (150, 330)))
    assert "cannot be told" in plan_sentence(Plan(checks, (0, 0)))
    assert str(Plan((), (0, 0))).startswith("no check")


@pytest.mark.parametrize("rows", [3, 40])
def test_what_an_examination_takes_lies_in_the_range_that_was_told(
    monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    """By a clock that only passes move: 1 ms a token forward, 2 ms backward."""
    now = [0.0]
    clock = SimpleNamespace(perf_counter=lambda: now[0])
    monkeypatch.setattr(plan, "time", clock)
    monkeypatch.setattr(examine, "time", clock)

    class Slow(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.places = torch.nn.Embedding(30, 16), torch.nn.Embedding(24, 16)
            self.layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
            self.head = torch.nn.Linear(16, 30)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            now[0] += 0.001 * ids.numel()
            size = ids.size(1)
            mask = torch.nn.Transformer.generate_square_subsequent_mask(size)
            x = self.embed(ids) + self.places(torch.arange(size))
            logits: torch.Tensor = self.head(self.layer(x, mask, is_causal=True))
            if logits.requires_grad:
                logits.register_hook(lambda _: now.__setitem__(0, now[0] + 0.002 * ids.numel()))
            return logits

    def loss(module: torch.nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        ids = batch["ids"]
        logits = module(ids)[:, :-1].flatten(0, 1)
        return torch.nn.functional.cross_entropy(logits, ids[:, 1:].flatten())

    torch.manual_seed(0)
    model, said = Slow(), list[Plan]()
    report = gnomon.diagnose(
        model,
        {"ids": torch.randint(1, 30, (rows, 12))},
        loss=loss,
        optimizer=torch.optim.AdamW(model.parameters()),
        announce=said.append,
    )
    least, most = said[0].seconds
    assert least < report.seconds < most


def test_text_tells_what_is_wrong_and_counts_the_rest() -> None:
    text = report_text(REPORT)
    assert "FAIL" in text and "a mend" in text and "padding-leak" not in text
    assert "1 failed, 1 passed, 1 skipped, 1 not applicable, 1 accepted by the recipe" in text
    shown = report_text(REPORT, verbose=True)
    assert (
        "padding-leak" in shown
        and "not there" in shown
        and "one text" in shown
        and "known" in shown
    )
    assert "\x1b" not in shown, "nothing a model says steers the terminal"


def test_the_pages_of_all_checks_are_up_to_date() -> None:
    folder = ROOT / FOLDER
    written = {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.md")}
    assert written == pages(), "run `python -m gnomon.doctor.reports.pages`"


def test_what_a_case_offers_is_listed_with_shapes() -> None:
    page = pages()["case.md"]
    assert "| `case.gradients` | `dict[str, Tensor \\| None]` |" in page
    assert re.search(r"`call.perturbed\(stream, where, seed=…\)` \| `Call` \| .*`\[B, T\]`", page)
    assert "`doctor.facts.attention.heads.heads(case)`" in page and "only_computes" not in page
    for name in re.findall(r"`case\.(\w+)", page):
        assert name in vars(Case), name


def test_links_to_checks_lead_somewhere() -> None:
    known = pages()
    for path in [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]:
        for name in re.findall(r"reference/checks/([a-z-]+\.md)", path.read_text("utf-8")):
            assert name in known, (path.name, name)
