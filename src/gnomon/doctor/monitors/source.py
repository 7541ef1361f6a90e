"""Whether the output depends on the source at all."""

from __future__ import annotations

from typing import ClassVar

from gnomon.doctor.monitors.monitor import Monitor, Sample, Seen, suspicion

_LEAST_GAIN = 0.01
_IN_A_ROW = 3


class Source(Monitor):
    """Loss with the right source against that with another line's.

    A translator first learns the target language alone, so that a gain of nothing means something
    only when it lasts: over three validations in a row.
    """

    kind: ClassVar[str] = "source"

    def __init__(self) -> None:
        self._in_a_row = 0

    def on_validation(self, step: int, sample: Sample) -> Seen | None:
        """Compare the two losses."""
        if sample.nll is None or sample.nll_of_shuffled is None or sample.nll <= 0:
            return None
        gain = sample.nll_of_shuffled - sample.nll
        ignored = gain < _LEAST_GAIN * sample.nll
        self._in_a_row = self._in_a_row + 1 if ignored else 0
        values = {"nll": sample.nll, "nll_of_shuffled": sample.nll_of_shuffled, "gain": gain}
        if self._in_a_row < _IN_A_ROW:
            return Seen(values)
        return Seen(
            values,
            suspicion(
                "source-ignored",
                "The output hardly depends on the source",
                f"at step {step} another line's source costs only {gain:.3f} nats a token more "
                f"({sample.nll:.3f} with the right one), for {self._in_a_row} validations in a row",
                cause="The decoder has become a language model: cross-attention is masked or cut "
                "off, the two sides of the corpus do not belong together, or attention "
                "collapsed early.",
                mend="Check the corpus for shifted lines and the cross-attention's padding mask; "
                "then begin again with a longer warm-up.",
                reference="OpenNMT-py #1017; Raunak et al. 2021 on hallucinations",
                gain=gain,
            ),
        )
