"""Whether free-running outputs differ from their sources, and from one another."""

from __future__ import annotations

from typing import ClassVar

from gnomon.doctor.finding import Finding
from gnomon.doctor.monitors.monitor import Monitor, Sample, Seen, suspicion

_FEWEST_LINES = 20
_IN_A_ROW = 3  # untrained models repeat themselves


class Outputs(Monitor):
    """Share of outputs that copy their source, and of those that no other line has."""

    kind: ClassVar[str] = "outputs"

    def __init__(self) -> None:
        self._repeated = self._copied = 0

    def on_validation(self, step: int, sample: Sample) -> Seen | None:
        """Count."""
        lines = list(zip(sample.sources, sample.references, sample.hypotheses, strict=False))
        if len(lines) < _FEWEST_LINES:
            return None
        copied = sum(source == output for source, _, output in lines) / len(lines)
        meant = sum(source == reference for source, reference, _ in lines) / len(lines)
        # Equal sources have equal outputs: what could differ at most is what is compared with.
        distinct = len({output for *_, output in lines}) / len({source for source, *_ in lines})
        possible = len({each for _, each, _ in lines}) / len({source for source, *_ in lines})
        values = {"copied": copied, "copied_in_references": meant, "distinct": distinct}
        self._copied = self._copied + 1 if copied > 0.5 and meant < 0.1 else 0
        self._repeated = self._repeated + 1 if distinct < 0.1 and possible > 0.5 else 0
        return Seen(values, self._judge(step, copied, meant, distinct))

    def _judge(self, step: int, copied: float, meant: float, distinct: float) -> Finding | None:
        if self._repeated >= _IN_A_ROW:
            return suspicion(
                "repeated-outputs",
                "Different sources give the same output",
                f"at step {step} the outputs of different lines are mostly the same: distinct ones "
                f"are {distinct:.0%} of the distinct sources",
                cause="The decoder does not use its source, or the learning rate has driven it to "
                "the most frequent sentence.",
                mend="See the loss with shuffled sources in the log (source/gain): when it is near "
                "0, check corpus and cross-attention; else lower the learning rate.",
                reference="OpenNMT-py #1017, #690, marian-dev #808",
                distinct=distinct,
            )
        if self._copied >= _IN_A_ROW:
            return suspicion(
                "copied-sources",
                "Outputs copy their sources",
                f"at step {step} {copied:.0%} of the outputs copy their source, {meant:.0%} of the "
                "references do",
                cause="The training text holds many untranslated lines, or source and target were "
                "given in the same language.",
                mend="Clean the corpus (`gnomon prepare --dry-run` counts equal sides); check "
                "which file is which.",
                reference="Khayrallah and Koehn 2018, On the Impact of Various Types of Noise",
                copied=copied,
            )
        return None
