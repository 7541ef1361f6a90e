"""`file.py:function`: runs the user's code, which returns what is to be examined."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn

from gnomon.doctor.patient import Patient
from gnomon.doctor.targets.target import Target
from gnomon.errors import DoctorError, in_one_line

_RETURNS = (
    "return the model, (model, batch), a dictionary with fields of gnomon.Patient, or a Patient"
)


def open_code(file: Path, function: str) -> Target:
    """Call `function` of `file` without arguments.

    Raises:
        DoctorError: no such file or function, it raises, or returns something else.
    """
    if not file.is_file():
        raise DoctorError("the Python file must exist", seen=file)
    module = _imported(file)
    build = getattr(module, function, None)
    if not callable(build):
        raise DoctorError(
            "the file must define the function that is named",
            seen=f"{file} has no function {function or '(none named)'}",
            mend=f"define `def {function or 'patient'}():`; it must {_RETURNS}",
        )
    try:
        patient = _patient(build(), f"{file}:{function}")
    except DoctorError:
        raise
    except (Exception, SystemExit) as error:  # whatever the user's code may raise
        raise _failed(f"{file}:{function}", error, file) from error
    kind = type(patient.module).__name__ if patient.module is not None else "no model"
    return Target(
        name=f"{file}:{function}",
        kind="code",
        what=f"{kind}, as {function}() in {file} returned it; that ran the file's code",
        patient=patient,
    )


def _imported(file: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"_gnomon_target_{file.stem}", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module  # dataclasses and pickles look it up
    folder = str(file.resolve().parent)
    sys.path.insert(0, folder)  # as `python file.py` does; what it imports later is found, too
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # whatever the user's code may raise
        raise _failed(str(file), error, file) from error
    return module


def _failed(what: str, error: BaseException, file: Path) -> DoctorError:
    own = [
        f"line {frame.lineno}, in {frame.name}"
        for frame in traceback.extract_tb(error.__traceback__)
        if Path(frame.filename).name == file.name
    ]
    place = f" ({own[-1]})" if own else ""
    return DoctorError(
        "the code that builds the model must run",
        seen=f"{what}{place}: {in_one_line(error)}",
    )


def _patient(returned: Any, what: str) -> Patient:
    if isinstance(returned, Patient):
        return returned
    if isinstance(returned, nn.Module):
        return Patient(module=returned)
    if isinstance(returned, tuple) and len(returned) == 2 and isinstance(returned[0], nn.Module):
        return Patient(module=returned[0], batch=returned[1])
    if isinstance(returned, Mapping):
        known = Patient.__dataclass_fields__
        if unknown := sorted(str(key) for key in returned if key not in known):
            raise DoctorError(
                "the dictionary's keys are fields of gnomon.Patient",
                seen=f"{what} returns {', '.join(unknown)}",
                mend=f"use {', '.join(sorted(known))}",
            )
        return Patient(**returned)
    raise DoctorError(
        "the function must return what is to be examined",
        seen=f"{what} returns a {type(returned).__name__}",
        mend=_RETURNS,
    )
