"""What was named, opened: the patient and what a person should know of how it was opened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from gnomon.doctor.patient import Patient
from gnomon.errors import DoctorError


@dataclass(frozen=True, kw_only=True)
class Options:
    """How to open a target.

    Args:
        source, target: two files of text whose line i belong together.
        data: in place of the two, one file of pairs.
        checkpoint: of a run: "best", "last", "averaged" or "step-N".
        device: "auto", "cpu" or "cuda".
        trust: whether code that lies beside a Hugging Face model may be run.
        code: of a crash bundle: "file.py:function" that builds its model, which is run.
        declared: fields of `Patient` that the user states (causal, pad_id, precision …).
    """

    source: Path | None = None
    target: Path | None = None
    data: Path | None = None
    checkpoint: str = "best"
    device: str = "auto"
    trust: bool = False
    code: str | None = None
    declared: Mapping[str, Any] = field(default_factory=dict)

    @property
    def corpus(self) -> dict[str, Path]:
        """The files of text given beside the target, as `Patient.corpus` names them."""
        given = {"source": self.source, "target": self.target, "pairs": self.data}
        return {name: path for name, path in given.items() if path is not None}


@dataclass(frozen=True, kw_only=True)
class Target:
    """An opened target.

    Attributes:
        name: for the report's title.
        kind: what it was taken for.
        what: one sentence: what was opened, and from where.
        notes: what could not be had, and why; one sentence each.
        suppress: codes that its recipe accepts, with the reason.
    """

    name: str
    kind: Literal["run", "model", "recipe", "corpus", "hugging face", "code", "bundle"]
    what: str
    patient: Patient
    notes: tuple[str, ...] = ()
    suppress: Mapping[str, str] = field(default_factory=dict)

    def declared(self, options: Options) -> Target:
        """With what the user states in place of what was found.

        Raises:
            DoctorError: padding has an id that the model has no row for.
        """
        changes: dict[str, Any] = dict(options.declared)
        module, pad_id = self.patient.module, changes.get("pad_id")
        # However its table is held: an id past every axis of every parameter has no row.
        shapes = [] if module is None else [tuple(p.shape) for p in module.parameters()]
        most = max((size for shape in shapes for size in shape), default=None)
        if pad_id is not None and most is not None and pad_id >= most:
            raise DoctorError(
                "padding has an id of the vocabulary",
                seen=f"--pad-id {pad_id}; no table of the model has more than {most:,} rows",
                mend="name the id that padding has in the model's inputs",
            )
        if options.corpus and self.kind != "corpus":
            changes["corpus"] = options.corpus
        return replace(self, patient=replace(self.patient, **changes))
