"""What cannot be in a patient is told apart from what could not be examined."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gnomon import diagnose
from gnomon.cli.train import preflight_line
from gnomon.doctor import Finding, Report
from gnomon.doctor.case import Case
from gnomon.doctor.finding import NotApplicable, Skip, foremost
from gnomon.doctor.patient import Patient
from gnomon.model import Transformer, TransformerConfig

SIZES: dict[str, Any] = {
    "vocab_size": 40,
    "d_model": 32,
    "num_encoder_layers": 2,
    "num_decoder_layers": 2,
}
PASS, SKIP, NONE = (
    Finding(code=v, group="g", title="t", verdict=v, evidence="e")  # type: ignore[arg-type]
    for v in ("pass", "skip", "n/a")
)


class Mine(nn.Module):
    """A stack that sees all, and nothing but its behaviour says whether it may."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(40, 32)
        layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, ids: Tensor, labels: Tensor | None = None) -> Tensor:
        out: Tensor = self.layers(self.table(ids))
        return out


def test_a_fact_says_the_same_each_time_it_is_asked_for() -> None:
    case = Case(Patient())

    def never() -> None:
        raise NotApplicable("there is no such thing")

    for _ in range(2):
        with pytest.raises(NotApplicable, match="no such thing"):
            case.once("a fact", never)


def test_what_could_not_be_had_is_told_before_what_does_not_apply() -> None:
    skip, none = Skip("not seen"), NotApplicable("not there")
    assert foremost([none, skip]) is skip
    assert foremost([none]) is none


def test_an_encoder_by_configuration_has_no_future_to_hide() -> None:
    model = Transformer(TransformerConfig(family="encoder", **SIZES))
    report = diagnose(model, only=["future-leak", "cross-padding", "source-ignored", "clipping"])
    assert {each.code for each in report.of("n/a")} == {
        "future-leak",
        "cross-padding",
        "source-ignored",
    }
    assert report["clipping"].verdict == "skip", "a clip_norm could be handed over"
    assert report.counts()["n/a"] == 3


def test_a_model_that_only_looks_like_an_encoder_may_have_lost_its_mask() -> None:
    torch.manual_seed(0)
    model, ids = Mine(), torch.randint(1, 40, (3, 9))
    finding = diagnose(model, {"ids": ids}, only=["future-leak"])["future-leak"]
    assert finding.verdict == "skip" and "causal=True" in finding.evidence
    said = diagnose(model, {"ids": ids}, only=["future-leak"], causal=False)["future-leak"]
    assert said.verdict == "n/a"


def test_labels_say_what_a_model_is_for() -> None:
    torch.manual_seed(0)
    model, ids = Mine(), torch.randint(2, 40, (3, 12))
    labels = torch.full_like(ids, -100)
    labels[:, 3], labels[:, 7] = ids[:, 3], ids[:, 7]
    hidden = ids.clone()
    hidden[:, [3, 7]] = 1
    masked = diagnose(model, {"ids": hidden, "labels": labels}, only=["future-leak"])
    assert masked.facts["known by"] == "its labels ask for what its inputs hide"
    assert masked["future-leak"].verdict == "n/a"
    own = diagnose(model, {"ids": ids, "labels": ids}, only=["future-leak"])
    assert own.facts["known by"] == "its labels are its own inputs"
    assert own["future-leak"].verdict == "fail"


def test_a_model_of_vectors_has_no_tokens() -> None:
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    codes = ["embedding-rows", "vocabulary-range", "vocabulary-mismatch", "position-range"]
    report = diagnose(layer, {"src": torch.randn(2, 9, 32)}, only=codes)
    assert {each.verdict for each in report} == {"n/a"}, [f.evidence for f in report]


def test_no_recipe_describes_a_model_of_somebody_else() -> None:
    ids = torch.randint(1, 40, (3, 9))
    assert diagnose(Mine(), {"ids": ids}, only=["recipe-batch"]).findings[0].verdict == "n/a"
    own = Transformer(TransformerConfig(family="encoder", **SIZES))
    finding = diagnose(own, only=["recipe-batch"]).findings[0]
    assert finding.verdict == "skip" and "handed over" in finding.evidence


@pytest.mark.parametrize(
    ("findings", "said"),
    [
        ((PASS,), "1 of 1 checks hold before the first step (2.0 s)"),
        ((PASS, SKIP), "1 of 1 checks hold before the first step (1 skipped; 2.0 s)"),
        (
            (PASS, SKIP, NONE, NONE),
            "1 of 1 checks hold before the first step (1 skipped; 2 do not apply; 2.0 s)",
        ),
        ((PASS, NONE), "1 of 1 checks hold before the first step (1 does not apply; 2.0 s)"),
    ],
)
def test_the_line_before_training_tells_them_apart(findings: Any, said: str) -> None:
    assert preflight_line(Report("", findings, seconds=2.0)) == said
