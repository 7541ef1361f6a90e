"""How the doctor's benchmarks count: what is new against a healthy twin, what names a fault."""

from __future__ import annotations

import pytest
import torch
from benchmarks.deform.injection import Fault
from benchmarks.deform.judge import frozen, judge, names_altered, table
from benchmarks.false_alarms.report import Visit, counts, reason_for
from benchmarks.patients.examination import Examination, Seen, examine, new_findings
from benchmarks.patients.text import PAD, padded
from benchmarks.patients.training import left_padded
from torch import nn


def seen(code: str, verdict: str, *where: str) -> Seen:
    return Seen(code, verdict, "because", where)


def test_a_finding_that_the_healthy_twin_has_too_does_not_count() -> None:
    healthy = Examination((seen("a", "warn", "layer.0"), seen("b", "pass"), seen("c", "skip")))
    ill = Examination(
        (seen("a", "warn", "layer.1"), seen("b", "warn"), seen("c", "fail"), seen("d", "pass"))
    )
    assert [f.code for f in new_findings(healthy, ill)] == ["b", "c"]


def test_a_warning_that_became_a_fail_counts() -> None:
    healthy, ill = Examination((seen("a", "warn"),)), Examination((seen("a", "fail"),))
    assert [f.code for f in new_findings(healthy, ill)] == ["a"]


@pytest.mark.parametrize(
    ("place", "altered", "right"),
    [
        ("bert.encoder.layer.0.attention.self.query.weight", "as it is", True),
        ("head 3 of bert.encoder.layer.0.attention.self", "as it is", True),
        ("bert.encoder.layer.0", "as it is", False),  # too far up
        ("bert.encoder.layer.1.attention.self.query", "as it is", False),
        ("layer", "as it is", False),
        ("transformer.h.0.attn.c_attn.weight", "transformer.h.0.attn", True),  # inside
        ("transformer.h.0.attn2", "transformer.h.0.attn", False),
        ("logits", "", True),
        ("transformer.h.0", "", False),
    ],
)
def test_a_place_names_what_was_altered_or_its_block(place: str, altered: str, right: bool) -> None:
    if altered == "as it is":
        altered = "bert.encoder.layer.0.attention.self.query.weight"
    assert names_altered(place, [altered]) is right


def test_conformance_can_be_left_out_of_account() -> None:
    fault = Fault("NCE", 1.0, "layernorm", "")
    healthy = Examination((seen("conformance", "pass"), seen("norm-eps", "pass")))
    ill = Examination((seen("conformance", "fail", "transformer.ln_f"), seen("norm-eps", "pass")))
    full = judge(healthy, ill, fault, "decoder", ["transformer.ln_f"])
    plain = judge(healthy, ill, fault, "decoder", ["transformer.ln_f"], without=["conformance"])
    assert full.detected and full.named
    assert not plain.detected and not plain.named


def test_conformance_is_right_only_by_what_it_names() -> None:
    fault = Fault("NCE", 1.0, "layernorm", "")
    healthy = Examination((seen("conformance", "pass"),))
    ill = Examination((seen("conformance", "fail", "transformer.h.0.mlp"),))
    judgement = judge(healthy, ill, fault, "decoder", ["transformer.ln_f"])
    assert judgement.detected and not judgement.named


def test_the_components_are_those_that_were_frozen() -> None:
    """Changed on purpose? Then FROZEN.txt says why, beside the new checksum."""
    assert frozen()[1]
    assert len([name for name in table("codes") if "@" not in name]) == 45


def test_a_doctor_that_breaks_is_recorded() -> None:
    found = examine(nn.Linear(2, 2), torch.zeros(1, 2), no_such_field=1)
    assert "no_such_field" in found.error or "DoctorError" in found.error
    assert not found.findings


def test_unjustified_findings_are_counted_and_justified_ones_are_not() -> None:
    examination = Examination((seen("initial-loss", "warn"), seen("no-such-code", "fail")))
    visit = Visit("mt5/eager", "huggingface", "fresh", "all", examination)
    assert reason_for(visit, examination.findings[0])
    found = counts([visit])
    assert found["warn"] == 1 and found["unjustified warn"] == 0
    assert found["fail"] == found["unjustified fail"] == 1


def test_left_padding_keeps_each_row_in_order() -> None:
    ids, mask = padded([[5, 6, 7], [8, 9]])
    moved, kept = left_padded(ids, mask)
    assert moved.tolist() == [[5, 6, 7], [PAD, 8, 9]]
    assert kept.tolist() == [[1, 1, 1], [0, 1, 1]]
    again, _ = left_padded(moved, kept)
    assert torch.equal(again, moved)
