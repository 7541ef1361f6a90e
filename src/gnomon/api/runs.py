"""What runs there are, and how two or more of them differ."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gnomon.api.claim import keys_unknown_to_run, read_run_recipe
from gnomon.api.evaluate import evaluate
from gnomon.api.evaluate_labels import evaluate_classifier
from gnomon.api.evaluate_language import evaluate_language_model
from gnomon.api.load import model_folder, task_of
from gnomon.errors import GnomonError, RunError
from gnomon.evaluation import Comparison, compared, measured_lines
from gnomon.evaluation.classification import compared_reports
from gnomon.recipes import ClassificationRecipe, LanguageModelRecipe, Recipe, difference
from gnomon.recipes.tasks import translation
from gnomon.training import RunFolder, read_metrics

DEPTH = 3
"""Folders below the given one in which runs are looked for."""


@dataclass(frozen=True, kw_only=True)
class RunScores:
    """One stored evaluation of a run.

    Attributes:
        path: the report.
        checkpoint: the folder's name, "step-00000500".
        text: fingerprint of the evaluated text.
        files: names of its files.
        num_lines: how many lines.
        scores: name to value.
        signatures: name to signature.
    """

    path: Path
    checkpoint: str
    text: str
    files: tuple[str, ...]
    num_lines: int
    scores: dict[str, float]
    signatures: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """One run.

    Attributes:
        path: its folder.
        problem: why it cannot be used, or None; the other fields then hold what could be read.
        name: of its recipe.
        state: "finished (max_steps)", "stopped", "running", "new" (no checkpoint yet), "damaged".
        step, max_steps: done, and where it ends at the latest.
        best: metric, value and step of the best validation.
        curve: (step, nll) of each validation.
        seconds: wall time in training.
        tokens_per_second: target tokens by wall time.
        num_bytes: size on the disk.
        date: when its newest file of metrics or checkpoints was written.
        evaluations: newest first.
    """

    path: Path
    problem: str | None = None
    name: str = ""
    state: str = "damaged"
    step: int = 0
    max_steps: int | None = None
    best: tuple[str, float, int] | None = None
    curve: tuple[tuple[int, float], ...] = ()
    seconds: float = 0.0
    tokens_per_second: float = 0.0
    num_bytes: int = 0
    date: datetime | None = None
    evaluations: tuple[RunScores, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RunComparison:
    """Two or more runs side by side; the first is what the others are compared with.

    Attributes:
        runs: as given.
        differences: for each run but the first, the keys in which its recipe differs, table by
            table.
        unknown: for each run, keys that its recipe does not know and another's does, as gnomon got
            them later; their defaults are what was compared.
        curves: step to nll of each run, None where it did not validate at that step.
        scores: for each run but the first, the comparison of the newest evaluations of the same
            text by both, with the text's files and the two checkpoints; None where there is none.
    """

    runs: tuple[RunSummary, ...]
    differences: tuple[list[str], ...]
    unknown: tuple[list[str], ...] = ()
    curves: dict[int, tuple[float | None, ...]] = field(default_factory=dict)
    scores: tuple[tuple[str, list[Comparison]] | None, ...] = ()


def list_runs(folder: str | Path = "runs") -> list[RunSummary]:
    """All runs in a folder or a few folders below it, by path; damaged ones with the reason.

    Raises:
        RunError: there is no such folder.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise RunError(
            "runs are listed from a folder that exists",
            seen=folder,
            mend="name the folder that holds your runs; `gnomon train` writes to runs/NAME",
        )
    return [summary_of(path) for path in sorted(_run_paths(folder, DEPTH))]


def summary_of(path: str | Path) -> RunSummary:
    """What can be said of one run; never raises for what is wrong inside it."""
    path = Path(path)
    run = RunFolder(path)
    facts: dict[str, Any] = {"path": path, "num_bytes": _size(path), "date": _date(run)}
    try:
        facts |= _progress(run)
        recipe = read_run_recipe(run)
        facts |= {"name": recipe.name, "max_steps": recipe.training.max_steps}
        facts["evaluations"] = tuple(read_evaluations(path))
    except (GnomonError, OSError) as error:
        problem = " ".join(str(error).split())
        return RunSummary(**facts | {"problem": problem, "state": "damaged"})
    return RunSummary(**facts)


def read_evaluations(run: str | Path) -> Iterator[RunScores]:
    """The stored evaluations of a run, newest first; damaged reports are left out."""
    folder = Path(run) / "evaluations"
    if not folder.is_dir():
        return
    files = [path for path in folder.iterdir() if path.suffix == ".json" and path.is_file()]
    for path in sorted(files, key=lambda path: path.stat().st_mtime, reverse=True):
        report = _read_report(path)
        if report is not None:
            scores = [score for score in report["scores"] if score["value"] is not None]
            yield RunScores(
                path=path,
                checkpoint=Path(report["about"]["model"]).name,
                text=report["about"]["text"],
                files=tuple(Path(name).name for name in report["about"]["files"]),
                num_lines=report["num_lines"],
                scores={score["name"]: score["value"] for score in scores},
                signatures={score["name"]: score["signature"] for score in scores},
            )


def scores_of(run: str | Path) -> RunScores:
    """The newest scores of a run's best checkpoint on the run's own test text.

    Where there are none yet, it is evaluated now.

    Raises:
        GnomonError: see `evaluate`.
    """
    folder = model_folder(run)
    for stored in read_evaluations(run):
        if stored.path.name.startswith(f"{folder.name}-test-"):
            return stored
    judges: dict[str, Callable[[Path], Any]] = {
        "translation": evaluate,
        "classification": evaluate_classifier,
        "language_model": evaluate_language_model,
    }
    report = Path(judges[task_of(folder)](folder).about["report"])
    return next(one for one in read_evaluations(run) if one.path.name == report.name)


def compare_runs(paths: Sequence[str | Path]) -> RunComparison:
    """Set runs side by side.

    Raises:
        RunError: fewer than two, or one of them cannot be used.
    """
    if len(paths) < 2:
        raise RunError("a comparison needs two runs or more", seen=", ".join(map(str, paths)))
    runs = tuple(summary_of(RunFolder.open(path).path) for path in paths)
    for run in runs:
        if run.problem is not None:
            raise RunError("runs that are compared must be readable", seen=run.problem)
    folders = [RunFolder(run.path) for run in runs]
    recipes = [read_run_recipe(folder) for folder in folders]
    unknown = [keys_unknown_to_run(folder) for folder in folders]
    everywhere = set.intersection(*map(set, unknown))
    tables = [dict(run.curve) for run in runs]
    return RunComparison(
        runs=runs,
        differences=tuple(difference(recipes[0], other) for other in recipes[1:]),
        unknown=tuple([key for key in keys if key not in everywhere] for keys in unknown),
        curves={
            step: tuple(table.get(step) for table in tables)
            for step in sorted(set().union(*tables))
        },
        scores=tuple(_compare_scores(run, runs[0], recipes[0]) for run in runs[1:]),
    )


def _compare_scores(
    run: RunSummary, first: RunSummary, recipe: Recipe
) -> tuple[str, list[Comparison]] | None:
    """`run` against `first` on the newest text that both were evaluated on."""
    for ours in run.evaluations:
        theirs = next((one for one in first.evaluations if one.text == ours.text), None)
        if theirs is None:
            continue
        report, against = _read_report(ours.path), _read_report(theirs.path)
        if report is None or against is None:
            continue
        what = f"{' '.join(ours.files)} ({ours.checkpoint} against {theirs.checkpoint})"
        if isinstance(recipe, LanguageModelRecipe):
            continue  # a loss is a mean over all tokens, of which the report keeps none
        if isinstance(recipe, ClassificationRecipe):
            if (found := compared_reports(report, against, recipe.evaluation)) is not None:
                return what, found
            continue
        lines, others = report["lines"], against["lines"]
        references = [line["reference"] for line in lines]
        if references != [line["reference"] for line in others]:
            continue
        config = translation(recipe).evaluation
        measured = measured_lines([line["hypothesis"] for line in lines], references, config)
        other = [line["hypothesis"] for line in others]
        return what, compared(measured, other, references, config)
    return None


def _progress(run: RunFolder) -> dict[str, Any]:
    """State, steps, curve and speed."""
    facts: dict[str, Any] = {"state": "running" if run.is_locked() else "new"}
    if run.metrics_path.is_file():
        facts["curve"] = tuple(
            (line["step"], float(line["metrics"]["nll"]))
            for line in read_metrics(run.metrics_path)
            if line.get("kind") == "validation"
            and isinstance(line.get("metrics"), dict)
            and isinstance(line["metrics"].get("nll"), int | float)
        )
    state = run.state()
    if state is None:
        return facts
    if facts["state"] == "new":
        facts["state"] = f"finished ({state.finished})" if state.finished else "stopped"
    facts |= {"step": state.step, "seconds": state.seconds}
    if state.best is not None:
        facts["best"] = (state.best.metric, state.best.value, state.best.step)
    if state.seconds > 0:
        facts["tokens_per_second"] = state.num_tokens / state.seconds
    return facts


def _run_paths(folder: Path, depth: int) -> Iterator[Path]:
    if RunFolder(folder).exists():
        yield folder
        return
    if depth == 0:
        return
    try:
        inside = [path for path in folder.iterdir() if path.is_dir() and path.name[0] != "."]
    except OSError:
        return
    for path in inside:
        yield from _run_paths(path, depth - 1)


_SCORE_TYPES = {"name": str, "value": int | float | None, "signature": str}


def _read_report(path: Path) -> dict[str, Any] | None:
    """A report's values where it holds what is read here; None where it is damaged."""
    try:
        report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        about = report["about"]
        whole = (
            all(isinstance(about[key], str) for key in ("model", "text"))
            and all(isinstance(name, str) for name in about["files"])
            and all(
                isinstance(score[key], kind)
                for score in report["scores"]
                for key, kind in _SCORE_TYPES.items()
            )
            and all(
                {"reference", "hypothesis"} <= line.keys() or {"labels", "given"} <= line.keys()
                for line in report["lines"]
            )
            and isinstance(report["num_lines"], int)
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return report if whole else None


def _size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except OSError:  # pruned while we look
            continue
    return total


def _date(run: RunFolder) -> datetime | None:
    times = []
    for path in (run.metrics_path, run.checkpoints.folder, run.recipe_path):
        try:
            times.append(path.stat().st_mtime)
        except OSError:
            continue
    return datetime.fromtimestamp(max(times), UTC) if times else None
