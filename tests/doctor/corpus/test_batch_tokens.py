"""The rows of a batch against the tokenizer: what is the tokenizer's to say, and what is not."""

from typing import Any

import torch
from torch import nn

from gnomon.doctor import all_checks
from gnomon.doctor.examine import examine
from gnomon.doctor.finding import Finding
from gnomon.doctor.patient import Patient

TEXTS = ["Der Zug kommt.", "Ein Hund!", "Ja, ja."]


class Letters:
    """Letters by their codes; it adds what it is told to."""

    def __init__(self, begin: tuple[int, ...] = (), end: tuple[int, ...] = ()) -> None:
        self.begin, self.end = begin, end
        self.all_special_ids = [0, *begin, *end]

    def encode(self, text: str) -> list[int]:
        return [*self.begin, *(ord(letter) for letter in text), *self.end]

    def decode(self, ids: list[int]) -> str:
        return "".join(chr(i) for i in ids if i > 3)


class Reader(nn.Module):
    def __init__(self, causal: bool) -> None:
        super().__init__()
        self.causal = causal
        self.embed = nn.Embedding(256, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.head = nn.Linear(16, 256)

    def forward(self, ids: torch.Tensor) -> Any:
        ahead = nn.Transformer.generate_square_subsequent_mask(ids.size(1)) if self.causal else None
        return self.head(self.layer(self.embed(ids), src_mask=ahead, is_causal=self.causal))


def verdict(rows: list[list[int]], tokenizer: Letters, causal: bool = True) -> Finding:
    torch.manual_seed(0)
    ids = torch.zeros(len(rows), max(map(len, rows)) + 1, dtype=torch.long)
    for place, row in enumerate(rows):
        ids[place, : len(row)] = torch.tensor(row)
    patient = Patient(module=Reader(causal), batch=(ids,), tokenizer=tokenizer, pad_id=0)
    return examine(patient, [all_checks()["tokenisation-mismatch"]]).findings[0]


def test_marks_that_the_loop_adds_are_not_the_tokenizer_s() -> None:
    rows = [[2, *Letters().encode(text)] for text in TEXTS]
    assert verdict(rows, Letters()).verdict == "pass"
    assert verdict(rows, Letters(), causal=False).verdict == "pass"


def test_a_prompt_has_no_end() -> None:
    rows = [Letters(begin=(2,)).encode(text) for text in TEXTS]
    assert verdict(rows, Letters(begin=(2,), end=(3,))).verdict == "pass"


def test_a_text_that_is_read_has_the_end_it_was_trained_with() -> None:
    rows = [Letters().encode(text) for text in TEXTS]
    finding = verdict(rows, Letters(end=(3,)), causal=False)
    assert finding.verdict == "fail" and finding.numbers["kind"] == "ends"


def test_other_pieces_are_told_of_either() -> None:
    rows = [[2, *Letters().encode(text.lower())] for text in TEXTS]

    class Upper(Letters):
        def encode(self, text: str) -> list[int]:
            return super().encode(text.upper())

    assert verdict(rows, Upper()).verdict == "fail"
