"""The [doctor] table of a recipe: findings that are known and accepted."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class DoctorConfig:
    """What `gnomon doctor` and the examination before a training need not report again."""

    # Code of a check → why its finding is accepted here. It is still examined and counted.
    suppress: dict[str, str] = field(default_factory=dict)

    def problems(self) -> list[str]:
        """What is wrong with these values, one sentence each; empty when nothing is."""
        return [
            f"doctor.suppress.{code} must say why its finding is accepted, seen an empty reason"
            for code, reason in self.suppress.items()
            if not reason.strip()
        ]
