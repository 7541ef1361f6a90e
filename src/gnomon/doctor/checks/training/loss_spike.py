"""loss-spike: the loss of a run does not jump and stay."""

import json
from pathlib import Path

from gnomon.doctor.case import Case
from gnomon.doctor.check import check
from gnomon.doctor.finding import Outcome, Skip, passed, warning
from gnomon.doctor.monitors.loss_spike import CAUSE, FAULT, MEND, REFERENCE, TITLE, LossSpike

_FAULTY = """
    import json, tempfile
    from pathlib import Path

    def patient():
        folder = Path(tempfile.mkdtemp())  # what a run has logged, a line every 50 steps
        losses = [6 - 0.03 * n for n in range(80)] + [8.0] * 20
        lines = [
            {"kind": "train", "step": 50 * n, "nll": loss, "learning_rate": 1e-3}
            for n, loss in enumerate(losses, 1)
        ]
        (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\\n" for line in lines))
        return {"folder": folder}
"""
_MENDED = _FAULTY.replace("[8.0] * 20", "[3.65] * 20")


@check(
    code="loss-spike",
    title=TITLE,
    fault=FAULT,
    cost="static",
    cause=CAUSE,
    mend=MEND,
    reference=REFERENCE,
    symptoms=("nan", "stuck"),
    example=_FAULTY,
    mended=_MENDED,
)
def loss_spike(case: Case) -> Outcome:
    """What a run loses in a jump it seldom wins back, and the curve of validations hides it.

    The log of the run is read; a monitor sees the same while training, step by step.
    """
    lines = _training_lines(case.patient.folder)
    monitor, found = LossSpike(every=1), []
    for line in lines:
        rate = float(line.get("learning_rate", 0.0))
        seen = monitor.on_loss(int(line["step"]), float(line["nll"]), rate)
        if seen is not None and seen.finding is not None:
            found.append(seen.finding)
    if len(lines) < monitor.num_needed:
        raise Skip(f"the log holds {len(lines)} lines of training, too few to judge")
    if not found:
        return passed(f"no jump in {len(lines)} lines of the log")
    steps = [int(each.numbers["step"]) for each in found]
    return warning(
        f"{found[0].evidence}" + (f"; {len(found)} jumps in all" if len(found) > 1 else ""),
        where=[f"step {step}" for step in steps],
        steps=steps,
    )


def _training_lines(folder: Path | None) -> list[dict[str, float]]:
    """The training lines of the run that a folder is, or lies in."""
    for run in () if folder is None else (folder, folder.resolve().parent.parent):
        path = run / "metrics.jsonl"
        if path.is_file():
            found = []
            for text in path.read_text("utf-8").splitlines():
                try:
                    line = json.loads(text)
                except ValueError:  # half written
                    continue
                if isinstance(line, dict) and line.get("kind") == "train" and "nll" in line:
                    found.append(line)
            return found
    raise Skip("no run with a log of its training was handed over")
