"""A crash bundle: what a monitor wrote down when it tripped."""

from __future__ import annotations

from pathlib import Path

from gnomon.doctor.targets.target import Options, Target
from gnomon.errors import DoctorError


def open_bundle(folder: Path, options: Options) -> Target:
    """The model and batch of the moment, to be examined.

    Raises:
        DoctorError: it is of a format that this gnomon does not replay.
    """
    raise DoctorError(
        "this gnomon does not replay crash bundles",
        seen=folder / "bundle.json",
        mend="use the gnomon that wrote it",
    )
