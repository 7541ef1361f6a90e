"""Whether a language model still goes on from different texts differently."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import Tensor

from gnomon.decoding import DecoderScorer, SearchConfig, greedy_search
from gnomon.doctor.monitors.attention import evaluating
from gnomon.doctor.monitors.monitor import Monitor, Sample, Seen, suspicion
from gnomon.tasks.language_modelling import LanguageModellingTask
from gnomon.tasks.packing import NO_LABEL, PackedRows

_ROWS, _PROMPT, _TOKENS = 16, 48, 16
_FEWEST = 8  # prompts that say something together
_ALIVE, _DEAD = 0.5, 0.125  # shares of distinct continuations
_IN_A_ROW = 2


class Continuations(Monitor):
    """The share of greedy continuations of validation text that no other prompt has.

    Every model begins with the same few frequent tokens whatever it reads, so that sameness means
    something only where there was variety before.
    """

    kind: ClassVar[str] = "continuations"

    def __init__(self) -> None:
        self._best = 0.0
        self._in_a_row = 0

    def on_validation(self, step: int, sample: Sample) -> Seen | None:
        """Count."""
        prompts = len(set(sample.sources))
        if prompts < _FEWEST:
            return None
        distinct = len(set(sample.hypotheses)) / prompts
        self._best = max(self._best, distinct)
        collapsed = self._best >= _ALIVE and distinct <= _DEAD
        self._in_a_row = self._in_a_row + 1 if collapsed else 0
        values = {"distinct": distinct}
        if self._in_a_row < _IN_A_ROW:
            return Seen(values)
        return Seen(
            values,
            suspicion(
                "repeated-continuations",
                "Different texts are gone on from in the same way",
                f"at step {step} {prompts} different texts have {len(set(sample.hypotheses))} "
                f"different continuations, for {self._in_a_row} validations in a row; there were "
                f"{self._best:.0%} before",
                cause="Training has driven the model back to its most frequent tokens: the "
                "learning rate is too high at this point, or attention collapsed.",
                mend="See loss, updates and entropy in the log around this step; begin again from "
                "a checkpoint before it with a lower peak learning rate.",
                reference="Holtzman et al. 2020, The Curious Case of Neural Text Degeneration",
                distinct=distinct,
                before=self._best,
            ),
        )


@torch.no_grad()
def sample_of(task: LanguageModellingTask) -> Sample:
    """Validation text, what the model says goes on, and how it does with the right text before.

    All three are ids, written with blanks between.
    """
    store = task.preparation.valid
    if store is None:
        return Sample()
    rows = PackedRows(store, task.preparation.context)
    batch = rows.collate(rows.sample(_ROWS)).to(next(task.model.parameters()).device)
    prompt = min(_PROMPT, rows.length // 2)
    length = min(_TOKENS, rows.length - prompt)
    if prompt < 1 or length < 1:
        return Sample()
    vocabulary = task.preparation.vocabulary
    # A row begins anew behind the last begin of a document within its prompt.
    prompts = [_last_document(row[:prompt], vocabulary.begin_id) for row in batch.inputs]
    end = vocabulary.end_id
    with evaluating(task.network):
        found = greedy_search(
            DecoderScorer(task.network, prompts, batch.inputs.device, begun=True),
            SearchConfig(beam=1, length_penalty="none"),
            pad_id=None if vocabulary.pad_id == end else vocabulary.pad_id,
            bos_id=None if vocabulary.begin_id == end else vocabulary.begin_id,
            eos_id=end,
            max_lengths=[length] * len(prompts),
        )
        labels = batch.target[:, 1:]
        asked = labels != NO_LABEL
        guessed = task.predict(batch, batch.inputs, asked).argmax(-1)
    # The label of a prompt's last token is the first of what goes on.
    real = [_until_end(row[prompt - 1 : prompt - 1 + length].tolist(), end) for row in labels]
    return Sample(
        sources=[_written(each) for each in prompts],
        references=[_written(each) for each in real],
        hypotheses=[_written(each.tokens) for each in found],
        accuracy=float((guessed == labels[asked]).float().mean()),
    )


def _last_document(row: Tensor, begin_id: int) -> list[int]:
    begins = (row == begin_id).nonzero()[:, 0]
    found: list[int] = row[int(begins[-1]) if len(begins) else 0 :].tolist()
    return found


def _until_end(ids: list[int], end_id: int) -> list[int]:
    return ids[: ids.index(end_id) + 1] if end_id in ids else ids


def _written(ids: object) -> str:
    return " ".join(map(str, ids))  # type: ignore[call-overload]
