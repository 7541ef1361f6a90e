"""An examination of whatever a user names: open it, choose the checks, make them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from gnomon.doctor import Finding, Plan, Report, all_checks
from gnomon.doctor.check import Cost
from gnomon.doctor.examine import choose, examine
from gnomon.doctor.targets import Options, Target, open_target
from gnomon.errors import DoctorError


def examine_target(
    target: str | Path | None,
    options: Options,
    *,
    symptom: str | None = None,
    only: Collection[str] = (),
    skip: Collection[str] = (),
    cost: Cost | None = None,
    pictures: bool = False,
    opened: Callable[[Target], None] = lambda target: None,
    announce: Callable[[Plan], None] | None = None,
    progress: Callable[[Finding], None] | None = None,
) -> Report:
    """Examine a target; see `gnomon.doctor.targets.open_target` and `gnomon.diagnose`.

    Args:
        cost: the most expensive class of checks; None: all that a model needs, or, where only text
            was named, all that text needs.
        pictures: whether the report holds what its HTML page draws.
        opened: is told what was opened, before anything is examined.

    Raises:
        GnomonError: the target cannot be opened, or a code, group or symptom is unknown.
    """
    choose(symptom=symptom, only=only, skip=skip)  # slips are told before a model is loaded
    found = open_target(target, options)
    opened(found)
    if unknown := sorted(set(found.suppress) - set(all_checks())):
        raise DoctorError(
            "the recipe's [doctor] table accepts findings of checks that exist",
            seen=", ".join(unknown),
            mend="`gnomon doctor --list` names all of them",
        )
    only_text = found.patient.module is None
    chosen = choose(
        symptom=symptom, only=only, skip=skip, cost=cost or ("run" if only_text else "step")
    )
    if found.kind == "bundle" and not only:  # a step that failed: what can make it fail
        chosen = tuple(c for c in chosen if "nan" in c.symptoms)
        chosen = tuple(sorted(chosen, key=lambda c: c.code != "non-finite"))  # the step itself
        if only_text:
            chosen = tuple(c for c in chosen if c.code == "non-finite")
    elif only_text:  # without a model most would only say that there is none
        chosen = tuple(c for c in chosen if c.group == "corpus" or c.code in only)
    return examine(
        found.patient,
        chosen,
        suppress=found.suppress,
        target=found.name,
        announce=announce,
        progress=progress,
        pictures=pictures,
        symptom=symptom,
    )
