"""The validation curve that a recipe is expected to give, and whether a run keeps to it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from gnomon.errors import RecipeError
from gnomon.recipes import presets
from gnomon.recipes.recipe import Recipe
from gnomon.recipes.show import flatten

FORMAT_VERSION = 1
SUFFIX = ".curve.json"

# Keys that say where a run reads and writes, how often it looks and on what it runs, not what it
# learns.
_UNBOUND = (
    *("schema_version", "description", "name"),
    *(
        f"training.{key}"
        for key in ("device", "threads", "log_every", "checkpoint_every", "monitor_every")
    ),
    *("training.keep_last", "training.seed"),
)
_UNBOUND_TABLES = ("data.", "evaluation.", "decoding.", "doctor.")


@dataclass(frozen=True, kw_only=True, slots=True)
class CurvePoint:
    """Validation loss after `step` steps in nats per token: the mean of the measured runs, and
    the band within which a sound run lies."""

    step: int
    nll: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True)
class ExpectedCurve:
    """A measured curve.

    Attributes:
        name: of the recipe.
        points: by rising step.
        num_runs: how many runs were measured.
        tolerance: share of the loss that widens the runs' own spread to the band, both ways.
        measured_on: hardware, versions and seeds.
        text: fingerprint of the training text the curve belongs to, by manifest.
        recipe: the keys that decide the curve, flat.
        scores: final scores of the (first) run, each with name, value, signature.
    """

    name: str
    points: tuple[CurvePoint, ...]
    num_runs: int
    tolerance: float
    measured_on: Mapping[str, Any]
    text: str | None
    recipe: Mapping[str, Any]
    scores: Sequence[Mapping[str, Any]] = field(default_factory=list)

    def to_json(self) -> str:
        """Readable JSON, one point a line."""
        head = {"format_version": FORMAT_VERSION, **asdict(self)}
        points = head.pop("points")
        text = json.dumps(head, indent=2, ensure_ascii=False)
        rows = ",\n    ".join(json.dumps(point) for point in points)
        return text.removesuffix("\n}") + f',\n  "points": [\n    {rows}\n  ]\n}}\n'


@dataclass(frozen=True, kw_only=True, slots=True)
class Departure:
    """Where a run left the band: the first step after which it never was inside again."""

    step: int
    nll: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """A run held against a curve.

    Attributes:
        num_points: validations at steps of the curve; 0 says nothing can be told.
        num_inside: of these, inside the band.
        departure: None while the last of them lies inside.
        differences: keys in which the recipes differ, "key: curve's → run's".
        other_text: the run trains on other text, so that the band says nothing about it.
    """

    num_points: int
    num_inside: int
    departure: Departure | None
    differences: list[str]
    other_text: bool

    @property
    def comparable(self) -> bool:
        """Whether the band speaks about this run at all."""
        return self.num_points > 0 and not self.differences and not self.other_text


def curve_of_runs(
    recipe: Recipe,
    runs: Sequence[Sequence[tuple[int, float]]],
    *,
    tolerance: float,
    measured_on: Mapping[str, Any],
    text: str | None,
    scores: Sequence[Mapping[str, Any]] = (),
) -> ExpectedCurve:
    """The curve of one or several finished runs of a recipe, (step, nll) each.

    Only steps that all runs validated at are taken.

    Raises:
        RecipeError: there is no such step, or the tolerance is not a share.
    """
    if not 0 <= tolerance < 1:
        raise RecipeError("a tolerance is a share from 0 up to 1", seen=tolerance)
    tables = [dict(run) for run in runs]
    common = sorted(set.intersection(*map(set, tables))) if tables else []
    if not common:
        raise RecipeError("a curve needs validations, at steps that all runs share")
    points = []
    for step in common:
        values = [table[step] for table in tables]
        points.append(
            CurvePoint(
                step=step,
                nll=round(sum(values) / len(values), 4),
                low=round(min(values) * (1 - tolerance), 4),
                high=round(max(values) * (1 + tolerance), 4),
            )
        )
    return ExpectedCurve(
        name=recipe.name,
        points=tuple(points),
        num_runs=len(tables),
        tolerance=tolerance,
        measured_on=measured_on,
        text=text,
        recipe=binding_keys(recipe),
        scores=list(scores),
    )


def hold_against(
    curve: ExpectedCurve, recipe: Recipe, run: Sequence[tuple[int, float]], text: str | None
) -> Verdict:
    """Whether a run, (step, nll) of its validations, lies within the band."""
    band = {point.step: point for point in curve.points}
    inside = [
        (band[step], nll, band[step].low <= nll <= band[step].high)
        for step, nll in run
        if step in band
    ]
    departure = None
    for point, nll, is_inside in reversed(inside):
        if is_inside:
            break
        departure = Departure(step=point.step, nll=nll, low=point.low, high=point.high)
    expected, found = dict(curve.recipe), binding_keys(recipe)
    return Verdict(
        num_points=len(inside),
        num_inside=sum(is_inside for _, _, is_inside in inside),
        departure=departure,
        differences=[
            f"{key}: {expected[key]!r} → {found[key]!r}"
            for key in sorted(expected.keys() & found.keys())
            if expected[key] != found[key]
        ],
        other_text=curve.text is not None and text != curve.text,
    )


def binding_keys(recipe: Recipe) -> dict[str, Any]:
    """The keys that decide how a recipe learns, flat and as JSON has them."""
    flat = flatten(json.loads(json.dumps(asdict(recipe))))
    return {
        key: value
        for key, value in flat.items()
        if key not in _UNBOUND and not key.startswith(_UNBOUND_TABLES)
    }


def shipped_curve(name: str) -> ExpectedCurve | None:
    """The curve that ships with preset `name`; None where none was measured."""
    file = resources.files(presets).joinpath(f"{name}{SUFFIX}")
    if "/" in name or not file.is_file():
        return None
    return parse_curve(file.read_text(encoding="utf-8"), f"{name}{SUFFIX}")


def read_curve(path: Path) -> ExpectedCurve:
    """A curve that `gnomon runs --save-curve` wrote.

    Raises:
        RecipeError: the file cannot be read or is not a curve.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError("a curve is a readable UTF-8 file", seen=error) from None
    return parse_curve(text, str(path))


def parse_curve(text: str, name: str) -> ExpectedCurve:
    """The curve in `text`; `name` is where it came from.

    Raises:
        RecipeError: it is not a curve, or one of a later gnomon.
    """
    try:
        values = json.loads(text)
        version = int(values.pop("format_version"))
        points = tuple(CurvePoint(**point) for point in values.pop("points"))
        curve = ExpectedCurve(points=points, **values)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RecipeError(
            "a curve is a JSON file written by `gnomon runs RUN --save-curve FILE`",
            seen=f"{name}: {error!r}",
        ) from None
    if version > FORMAT_VERSION:
        raise RecipeError(
            f"this gnomon reads curves up to format {FORMAT_VERSION}",
            seen=f"format {version} in {name}",
            mend="upgrade gnomon",
        )
    return curve
