"""What is known of one check, as a page of the documentation; all of it stands in its own file."""

from __future__ import annotations

from gnomon.doctor.check import SYMPTOMS, Check

_COSTS = {
    "static": "nothing is run",
    "probe": "a few forward and backward passes",
    "step": "a few optimizer steps, rolled back afterwards",
    "run": "a training or a corpus read through",
}


def check_page(check: Check) -> str:
    """Markdown: what it protects, cause, mend, a minimal faulty example and its mended form."""
    parts = [
        f"# {check.code}",
        f"**{check.title}.** A report that says otherwise: “{check.fault}.”",
        check.protects,
        f"*Usual cause.* {check.cause}",
        f"*Mend.* {check.mend}",
    ]
    if check.symptoms:
        told = "; ".join(SYMPTOMS[symptom] for symptom in check.symptoms)
        parts.append(f"*Symptoms.* {told} (`--symptom {check.symptoms[0]}`)")
    parts += [
        f"*Cost.* {check.cost}: {_COSTS[check.cost]}. *Group.* {check.group}. "
        f"`gnomon doctor TARGET --only {check.code}` makes this check alone.",
        f"*Reference.* {check.reference}",
    ]
    if check.example:
        parts += ["## Found in", _code(check.example)]
    if check.mended:
        parts += ["## Mended", _code(check.mended)]
    return "\n\n".join(parts) + "\n"


def _code(source: str) -> str:
    return f"```python\n{source.strip()}\n```"
