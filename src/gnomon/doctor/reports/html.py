"""A report as one page: no script, nothing fetched; light and dark, on a phone and on paper."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from html import escape
from typing import Any

from gnomon.doctor.finding import Finding
from gnomon.doctor.report import Report
from gnomon.doctor.reports.svg import bars, heat_map, histogram
from gnomon.doctor.reports.text import WORDS, counts_sentence, facts_sentence, told
from gnomon.doctor.walks import Walk

_STYLE = """
:root { color-scheme: light dark; --ground: #fbfaf8; --card: #fff; --text: #1d2126; --dim: #59636e;
  --line: #dcdfe3; --fail: #b3261e; --warn: #8a5a00; --pass: #1a6e3c; --accent: #27609f; }
@media (prefers-color-scheme: dark) { :root { --ground: #14171a; --card: #1d2125; --text: #e4e7ea;
  --dim: #9aa4ae; --line: #363c43; --fail: #ff8a80; --warn: #f0b95a; --pass: #7bd09b;
  --accent: #7fb2ea; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--text);
  font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 54rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2.25rem 0 .75rem; }
p { margin: .25rem 0; }
.dim { color: var(--dim); }
.counts { display: flex; flex-wrap: wrap; gap: .5rem; margin: 1rem 0 0; padding: 0;
  list-style: none; }
.counts li { border: 1px solid var(--line); border-radius: 1rem; padding: .1rem .8rem;
  background: var(--card); }
.fail { color: var(--fail); } .warn { color: var(--warn); } .pass { color: var(--pass); }
article { background: var(--card); border: 1px solid var(--line); border-left: 4px solid;
  border-radius: 6px; margin: 0 0 1rem; padding: .8rem 1rem; }
article > * { color: var(--text); }
article h3 { font-size: 1rem; margin: 0 0 .4rem; }
article h3 code { font-weight: 400; }
article h3 .word { font-variant: small-caps; letter-spacing: .03em; }
code { font: .88em ui-monospace, monospace; overflow-wrap: anywhere; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; margin: 0; }
dt { color: var(--dim); } dd { margin: 0; overflow-wrap: anywhere; }
figure { background: var(--card); border: 1px solid var(--line); border-radius: 6px;
  margin: 0 0 1rem; padding: .8rem 1rem; break-inside: avoid; }
figcaption { margin-bottom: .5rem; }
.scroll { overflow-x: auto; }
svg text { fill: var(--text); font: 12px system-ui, sans-serif; }
svg .cell { fill: var(--accent); stroke: var(--line); }
svg .bar { fill: var(--accent); } svg .axis { stroke: var(--dim); }
details { border-top: 1px solid var(--line); padding: .6rem 0; }
summary { cursor: pointer; font-weight: 600; }
table { border-collapse: collapse; width: 100%; margin-top: .5rem; }
th { text-align: left; color: var(--dim); font-weight: 600; padding: .3rem .6rem .3rem 0; }
td { border-top: 1px solid var(--line); padding: .3rem .6rem .3rem 0; vertical-align: top; }
@media (max-width: 34rem) { dl { grid-template-columns: 1fr; } dd { margin-bottom: .4rem; }
  th { display: none; } td { display: block; border: 0; padding: 0; }
  tr { display: block; padding: .4rem 0; border-top: 1px solid var(--line); } }
@media print { body { background: #fff; } article, figure { break-inside: avoid; } }
"""


def html_page(report: Report) -> str:
    """The whole page as text."""
    wrong = [*report.of("fail"), *report.of("warn")]
    parts = [
        f"<h1>{escape(report.target or 'An examination')}</h1>",
        f'<p class="dim">{escape(_opening(report))}</p>',
        _counts(report),
        _walk(report.walk),
        "<h2>What is wrong</h2>" if wrong else "<h2>Nothing wrong was found</h2>",
        *(_card(finding) for finding in wrong),
        *_pictures(report.pictures),
        _anatomy(report.facts.get("anatomy", ())),
        "<h2>All else</h2>",
        _rows("passed", report.of("pass")),
        _rows("skipped, and why", report.of("skip")),
        _rows("not applicable, and why", report.of("n/a")),
        _rows("accepted by the recipe", [f for f in report if f.suppressed]),
    ]
    title = escape(f"gnomon doctor: {report.target}")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(part for part in parts if part)
        + "\n</main>\n</body>\n</html>\n"
    )


def _opening(report: Report) -> str:
    facts = facts_sentence(report.facts)
    told = [counts_sentence(report), facts, report.facts.get("form", "")]
    return f"gnomon doctor: {'; '.join(each for each in told if each)}"


def _walk(walk: Walk | None) -> str:
    if walk is None:
        return ""
    steps = "".join(
        f"<li><strong>{escape(step.question)}</strong><br>{escape(step.answer)}: "
        f"{escape(step.evidence)}<br><em>{escape(step.decision)}</em></li>"
        for step in walk.steps
    )
    said = walk.lines()
    ends = next((n for n, line in enumerate(said) if not line.startswith((" ", *"0123456789"))), 0)
    closing = "<br>".join(escape(line) for line in said[ends:])
    return f"<h2>Led by the symptom: {escape(walk.symptom)}</h2><ol>{steps}</ol><p>{closing}</p>"


def _anatomy(traits: Iterable[Mapping[str, str]]) -> str:
    rows = "".join(
        f"<tr><td>{escape(each['part'])}</td><td>{escape(each['seen'])}</td>"
        f"<td>{escape(each['paper'] or 'the same')}</td><td>{escape(each['means'])}</td></tr>"
        for each in traits
    )
    head = "<tr><th>part</th><th>this model</th><th>2017</th><th>brings</th></tr>"
    return f"<h2>What it is made of</h2><table>{head}{rows}</table>" if rows else ""


def _counts(report: Report) -> str:
    counts = report.counts()
    items = [
        f'<li class="{verdict}">{counts[verdict]} {word}</li>'
        for verdict, word in WORDS.items()
        if counts[verdict]
    ]
    return f'<ul class="counts">{"".join(items)}</ul>'


def _card(finding: Finding) -> str:
    word = {"fail": "failed", "warn": "warning"}[finding.verdict]
    rows = "".join(
        f"<dt>{escape(name)}</dt><dd>{_value(name, text)}</dd>" for name, text in told(finding)
    )
    return (
        f'<article class="{finding.verdict}"><h3>'
        f'<span class="word {finding.verdict}">{word}</span> {_text(finding.title)} '
        f'<code class="dim">{escape(finding.group)}/{escape(finding.code)}</code></h3>'
        f"<dl>{rows}</dl></article>"
    )


def _value(name: str, text: str) -> str:
    if name == "where":
        more = re.search(r" and \d+ more$", text)
        places = text[: more.start()] if more else text
        shown = ", ".join(f"<code>{escape(place)}</code>" for place in places.split(", "))
        return shown + (more.group() if more else "")
    return _text(text)


def _text(text: str) -> str:
    """What stands between backticks is code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _rows(title: str, findings: Iterable[Finding]) -> str:
    rows = "".join(
        f"<tr><td><code>{escape(f.group)}/{escape(f.code)}</code></td><td>{escape(f.evidence)}"
        + (f" ({escape(f.suppressed)})" if f.suppressed else "")
        + "</td></tr>"
        for f in findings
    )
    count = rows.count("<tr>")
    return (
        f"<details><summary>{count} {title}</summary><table>{rows}</table></details>"
        if count
        else ""
    )


def _pictures(pictures: dict[str, Any]) -> Iterator[str]:
    if pictures:
        yield "<h2>Pictures</h2>"
    if heads := pictures.get("heads"):
        yield _figure(
            "Attention to padding: the share of each head's weights that goes to padding. All of "
            "it should be blank.",
            heat_map([(row["module"], row["padding"]) for row in heads], name="head"),
        )
        yield _figure(
            "Entropy of each head's weights, from 0 (all on one token, blank) to 1 (even, full). "
            "Single heads near 0 are normal, whole layers are not.",
            heat_map([(row["module"], row["entropy"]) for row in heads], name="head"),
        )
    if gradients := pictures.get("gradients"):
        yield _figure(
            "Gradient by depth: L2 norm of the loss's gradient in each layer, from the input on.",
            bars([(row["module"], row["norm"]) for row in gradients]),
        )
    if scores := pictures.get("scores"):
        yield _figure(
            "Scores before softmax, all layers and heads, hidden ones left out; heights go by the "
            "square root of the count. fp16 ends at 65,504, and beyond some tens softmax has "
            "nothing left to learn from.",
            histogram(scores["low"], scores["high"], scores["counts"]),
        )


def _figure(caption: str, picture: str) -> str:
    return (
        f'<figure><figcaption class="dim">{escape(caption)}</figcaption>'
        f'<div class="scroll">{picture}</div></figure>'
    )
