"""A crash bundle: what a monitor wrote down when it tripped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gnomon.doctor.finding import Outcome
from gnomon.doctor.monitors.bundle import Bundle, read_bundle
from gnomon.doctor.monitors.replay import replay
from gnomon.doctor.patient import Patient
from gnomon.doctor.targets.target import Options, Target


def open_bundle(folder: Path, options: Options) -> Target:
    """The failed step, to be made again, and of a gnomon run its model and batch.

    Raises:
        DoctorError: damaged, or of a format that this gnomon does not replay.
    """
    bundle = read_bundle(folder)
    fields: dict[str, Any] = {"replay": lambda: _replayed(folder)}
    notes = []
    if bundle.kind == "gnomon":
        fields |= _of_run(bundle)
    elif bundle.kind == "module":
        notes.append(
            f"the code of {bundle.record.get('model_class', 'its model')} is not here: what was "
            "found when the step failed is shown; gnomon.doctor.monitors.replay(bundle, module) "
            "runs it again"
        )
    lines = f", {bundle.record['lines']}" if "lines" in bundle.record else ""
    return Target(
        name=str(folder),
        kind="bundle",
        what=f"step {bundle.step} that failed{lines}",
        patient=Patient(**fields),
        notes=tuple(notes),
    )


def _replayed(folder: Path) -> Outcome:
    found = replay(folder)["non-finite"]
    return Outcome(
        found.verdict, found.evidence, found.numbers, found.where, found.cause, found.mend
    )


def _of_run(bundle: Bundle) -> dict[str, Any]:
    from gnomon.doctor.targets.training import training_fields
    from gnomon.model import load_model
    from gnomon.recipes import load_recipe

    module = load_model(bundle.model)
    recipe = load_recipe(bundle.folder / "recipe.toml")
    batch = {"ids": bundle.batch["0.source"], "target": bundle.batch["0.target"][:, :-1]}
    fields = {
        "module": module,
        "batch": batch,
        "config": module.config,
        "family": module.config.family,
        "pad_id": module.config.pad_id,
        "padding_side": "right",
        "folder": bundle.model,
    }
    return fields | training_fields(module, recipe, step=bundle.step - 1)
