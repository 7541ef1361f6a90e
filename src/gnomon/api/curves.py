"""Expected curves: written from finished runs, and runs held against them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gnomon.api.claim import read_run_recipe
from gnomon.api.runs import read_evaluations, summary_of
from gnomon.errors import RunError
from gnomon.files import write_atomically
from gnomon.recipes import (
    ExpectedCurve,
    Verdict,
    binding_keys,
    curve_of_runs,
    hold_against,
    read_curve,
    shipped_curve,
)
from gnomon.training import RunFolder


@dataclass(frozen=True, kw_only=True)
class CurveVerdict:
    """What a curve says of a run.

    Attributes:
        run: its folder.
        verdict: None where there is no curve to hold it against.
        sentence: the verdict for a person.
        passed: the run lies within the band as far as it has come.
    """

    run: Path
    verdict: Verdict | None
    sentence: str
    passed: bool


def check_curve(run: str | Path, curve: str | Path | None = None) -> CurveVerdict:
    """Hold a run against a curve file, or the one that ships with the preset of its recipe's name.

    Raises:
        RunError, RecipeError: the run or the curve cannot be read.
    """
    folder = RunFolder.open(run)
    recipe = read_run_recipe(folder)
    expected = shipped_curve(recipe.name) if curve is None else read_curve(Path(curve))
    if expected is None:
        sentence = f"{run}: no expected curve ships for a recipe called {recipe.name!r}"
        return CurveVerdict(run=Path(run), verdict=None, sentence=sentence, passed=False)
    summary = summary_of(folder.path)
    verdict = hold_against(expected, recipe, summary.curve, _text_of(folder))
    passed = verdict.comparable and verdict.departure is None
    return CurveVerdict(
        run=Path(run), verdict=verdict, sentence=f"{run}: {_sentence(verdict)}", passed=passed
    )


def save_curve(
    runs: Sequence[str | Path], path: str | Path, *, tolerance: float = 0.05
) -> ExpectedCurve:
    """Write the curve of finished runs of one recipe (seeds may differ) to a file.

    Raises:
        RunError: a run is not finished, or they are not of one recipe on one text.
        RecipeError: there are no common validations, or `tolerance` is not a share.
    """
    folders = [RunFolder.open(run) for run in runs]
    recipes = [read_run_recipe(folder) for folder in folders]
    summaries = [summary_of(folder.path) for folder in folders]
    if unfinished := [str(one.path) for one in summaries if not one.state.startswith("finished")]:
        raise RunError("a curve is taken from finished runs", seen=", ".join(unfinished))
    kinds = {
        json.dumps([binding_keys(recipe), _text_of(folder)], sort_keys=True)
        for recipe, folder in zip(recipes, folders, strict=True)
    }
    if len(kinds) > 1:
        raise RunError(
            "a curve is taken from runs of one recipe on one text; only their seeds may differ",
            seen=", ".join(map(str, runs)),
            mend="`gnomon runs RUN RUN` shows how they differ",
        )
    newest = next(read_evaluations(folders[0].path), None)
    scores = (
        [
            {"name": name, "value": round(value, 4), "signature": newest.signatures[name]}
            for name, value in (newest.scores if newest else {}).items()
        ]
        if newest
        else []
    )
    manifest = _manifest(folders[0])
    about = {key: manifest.get(key) for key in ("gnomon", "torch", "python", "platform", "gpu")}
    about["seeds"] = [recipe.training.seed for recipe in recipes]
    about["minutes"] = [round(one.seconds / 60, 1) for one in summaries]
    found = curve_of_runs(
        recipes[0],
        [one.curve for one in summaries],
        tolerance=tolerance,
        measured_on=about,
        text=_text_of(folders[0]),
        scores=scores,
    )
    write_atomically(Path(path), found.to_json())
    return found


def _sentence(verdict: Verdict) -> str:
    if verdict.other_text:
        return "trains on other text than its expected curve was measured on, so it says nothing"
    if verdict.differences:
        return "its recipe is not the one of the expected curve: " + "; ".join(verdict.differences)
    if verdict.num_points == 0:
        return "no validation yet at a step of the expected curve"
    inside = f"{verdict.num_inside} of {verdict.num_points} validations within the expected band"
    if verdict.departure is None:
        return f"as expected: {inside}"
    left = verdict.departure
    side = "above" if left.nll > left.high else "below"
    return (
        f"not as expected: {side} the band from step {left.step:,} on "
        f"(loss {left.nll:.4f}, band {left.low:.4f} to {left.high:.4f}); {inside}"
    )


def _text_of(folder: RunFolder) -> str | None:
    identity = _manifest(folder).get("identity")
    text = identity.get("training text") if isinstance(identity, dict) else None
    return text if isinstance(text, str) else None


def _manifest(folder: RunFolder) -> dict[str, Any]:
    try:
        manifest = json.loads(folder.manifest_path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return manifest if isinstance(manifest, dict) else {}
