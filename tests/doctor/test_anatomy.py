"""What the doctor says a model is made of, on one written by hand after the paper."""

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

import gnomon
from gnomon.doctor.anatomy import Trait, anatomy
from gnomon.doctor.case import Case
from gnomon.doctor.patient import Patient
from gnomon.doctor.reports.html import html_page
from gnomon.doctor.reports.text import report_text

SOURCE = (Path(__file__).parents[2] / "docs/examples/by_hand.py").read_text(encoding="utf-8")


def by_hand(*changes: tuple[str, str]) -> Any:
    """The example's patient, with lines of it exchanged."""
    source = SOURCE
    for old, new in changes:
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    module = ModuleType("by_hand")
    exec(compile(source, "by_hand.py", "exec"), module.__dict__)
    return module.patient()


def differences(patient: Any) -> dict[str, list[Trait]]:
    found: dict[str, list[Trait]] = {}
    for each in anatomy(Case(Patient(**patient))):
        if each.paper:
            found.setdefault(each.part, []).append(each)
    return found


def test_every_deviation_of_the_hand_written_model_is_explained() -> None:
    found = differences(by_hand())
    assert set(found) == {"layers", "norm", "mask", "tables", "positions", "memory"}
    assert "pre-norm" in found["layers"][0].seen
    unbiased, outside = found["norm"]
    assert "D - 1 = 63" in unbiased.seen and "outside the root" in outside.seen
    assert "-1e+09" in found["mask"][0].seen
    assert "generator.weight" in found["tables"][0].seen
    assert "5,000" in found["positions"][0].seen
    assert "6 modules" in found["memory"][0].seen
    assert all(each.means for traits in found.values() for each in traits)


@pytest.mark.parametrize(
    ("part", "old", "new"),
    [
        ("norm", "x.std(-1, keepdim=True) + self.eps",
         "(x.var(-1, keepdim=True, unbiased=False) + self.eps).sqrt()"),
        ("mask", "-1e9", "-torch.inf"),
        ("memory", "self.weights = scores.softmax(-1)\n        context = self.dropout(self.weights",
         "context = self.dropout(scores.softmax(-1)"),
        ("layers", "x + self.dropout(sublayer(self.norm(x)))",
         "self.norm(x + self.dropout(sublayer(x)))"),
    ],
)  # fmt: skip
def test_a_deviation_that_is_mended_is_no_longer_told(part: str, old: str, new: str) -> None:
    assert part not in differences(by_hand((old, new)))


def test_a_constant_that_fp16_has_is_not_said_to_be_beyond_it() -> None:
    (mask,) = differences(by_hand(("-1e9", "-1e4")))["mask"]
    assert "-1e+04" in mask.seen and "65,504" not in mask.means


def test_the_norm_of_torch_deviates_in_nothing() -> None:
    patient = by_hand(
        ("class Norm(nn.Module):", "class Norm(nn.LayerNorm):\n    def __init__(self) -> None:\n"
         "        super().__init__(D_MODEL)\n\n\nclass Unused(nn.Module):")
    )  # fmt: skip
    assert "norm" not in differences(patient)


def test_tied_tables_are_the_papers() -> None:
    patient = by_hand()
    model = patient["module"]
    model.decoder.table.weight = model.encoder.table.weight
    model.generator.weight = model.encoder.table.weight
    assert "tables" not in differences({k: patient[k] for k in ("module", "batch", "pad_id")})


def test_reports_tell_what_it_is_made_of() -> None:
    report = gnomon.diagnose(**by_hand(), only=["norm-eps"])
    short, long, page = report_text(report), report_text(report, verbose=True), html_page(report)
    assert "by choice not as in Vaswani et al. 2017: layers, norm, mask, tables" in short
    assert "D - 1 = 63" not in short and "D - 1 = 63" in long and "D - 1 = 63" in page
    assert report.as_json()["facts"]["anatomy"][0]["part"] == "layers"


def test_a_rate_that_the_loop_writes_is_not_taken_from_the_optimizer() -> None:
    """lr=1.0 stands there until the schedule's function is asked."""
    report = gnomon.diagnose(**by_hand(), only=["gradient-ratio"])
    assert report["gradient-ratio"].verdict == "pass", report["gradient-ratio"].evidence


def test_a_bare_attention_has_an_anatomy() -> None:
    torch.manual_seed(0)
    module = nn.MultiheadAttention(32, 4, batch_first=True)
    parts = {each.part for each in anatomy(Case(Patient(module=module)))}
    assert "attention" in parts
