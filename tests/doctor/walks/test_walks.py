"""Walks: questions in order, evidence from findings, the most likely cause, and its proof."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from torch import nn

from gnomon.doctor import SYMPTOMS, Report, all_checks, diagnose
from gnomon.doctor.case import Case
from gnomon.doctor.finding import Finding
from gnomon.doctor.patient import Patient
from gnomon.doctor.reports import html_page, report_text
from gnomon.doctor.walks import WALKS, Walk, codes_of
from gnomon.doctor.walks.speed import attention_path, batch_size, data_wait, padding_share, threads
from gnomon.doctor.walks.walk import Station, walk_through
from gnomon.model import Transformer
from model_configs import BASE


def patient(code: str, *, mended: bool = False) -> dict[str, Any]:
    check, names = all_checks()[code], {}
    exec(check.mended if mended else check.example, names)
    return names["patient"]()


def walked(symptom: str, code: str, *, mended: bool = False) -> tuple[Walk, Report]:
    report = diagnose(**patient(code, mended=mended), symptom=symptom)
    assert report.walk is not None
    return report.walk, report


def test_every_symptom_has_a_walk_of_questions() -> None:
    assert set(WALKS) == set(SYMPTOMS)
    for stations in WALKS.values():
        assert all(each.question.endswith("?") for each in stations)
        assert all(bool(each.codes) != bool(each.measure) for each in stations)


def test_walks_ask_checks_that_exist() -> None:
    assert {code for symptom in WALKS for code in codes_of(symptom)} <= set(all_checks())


def test_nan_is_followed_to_the_mask_and_the_mend_proven() -> None:
    walk, _ = walked("nan", "non-finite")
    assert walk.code == "non-finite"
    assert walk.steps[0].answer == "wrong"
    assert "no key at all" in walk.cause
    assert walk.proof is not None and walk.proof.holds
    assert "finite" in walk.proof.after and "NaN" in walk.proof.before


def test_a_missing_scale_is_put_in_and_measured_again() -> None:
    example = patient("score-scale")
    module = example["module"]
    before = {name: p.clone() for name, p in module.named_parameters()}
    walk = diagnose(**example, symptom="nan").walk
    assert walk is not None and walk.code == "score-scale"
    assert walk.proof is not None and walk.proof.holds, walk.proof
    assert "multiplied by" in walk.proof.tried
    assert all(torch.equal(before[name], p) for name, p in module.named_parameters())


def test_decay_groups_are_made_again() -> None:
    module = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-4, weight_decay=0.1)
    walk = diagnose(module, optimizer=optimizer, symptom="stuck").walk
    assert walk is not None
    step = next(step for step in walk.steps if "decay-on-norms" in step.codes)
    assert step.answer == "suspicious"
    if walk.code == "decay-on-norms":
        assert walk.proof is not None and walk.proof.holds
    assert len(optimizer.param_groups) == 1


def test_a_leak_ends_the_walk_at_once() -> None:
    walk, _ = walked("too-good", "future-leak")
    assert len(walk.steps) == 1 and walk.code == "future-leak"
    sound, _ = walked("too-good", "future-leak", mended=True)
    assert len(sound.steps) == len(WALKS["too-good"])
    assert sound.steps[0].answer == "fine"


def test_what_fails_comes_before_what_is_only_suspicious() -> None:
    def finding(code: str, verdict: str) -> Finding:
        return Finding(code, "masks", "", verdict, "seen", cause=code, mend="m")  # type: ignore[arg-type]

    stations = [Station("a?", ("one",)), Station("b?", ("two",)), Station("c?", ("three",))]
    found = [finding("one", "warn"), finding("two", "fail"), finding("three", "fail")]
    walk, suspect = walk_through("nan", stations, Case(Patient()), found)
    assert (walk.cause, suspect.code if suspect else "") == ("two", "two")
    assert [step.answer for step in walk.steps] == ["suspicious", "wrong", "wrong"]
    walk, suspect = walk_through("nan", stations, Case(Patient()), [])
    assert suspect is None and {step.answer for step in walk.steps} == {"unknown"}


def test_reports_show_every_step() -> None:
    walk, report = walked("nan", "non-finite")
    text, page = report_text(report), html_page(report)
    for step in walk.steps:
        assert step.question.split()[0] in text
    assert "Most likely:" in text and "Proven" in text
    assert "Led by the symptom" in page and "Proven" in page
    assert json.loads(json.dumps(report.as_json()["walk"]))["code"] == "non-finite"


class Slow(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.query = nn.Embedding(50, 16), nn.Linear(16, 16)

    def forward(self, ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        scores = self.query(x) @ x.transpose(1, 2) / 4
        hidden = ~attention_mask.bool()[:, None]
        return scores.masked_fill(hidden, -1e9).softmax(-1) @ x


def test_slowness_is_measured() -> None:
    ids = torch.randint(1, 50, (4, 20))
    mask = (torch.arange(20) < torch.tensor([[20], [3], [2], [2]])).long()
    case = Case(Patient(module=Slow(), batch={"ids": ids * mask, "attention_mask": mask}, pad_id=0))
    padding = padding_share(case)
    assert padding.answer == "suspicious" and "66% of 80" in padding.evidence
    assert attention_path(case).answer == "suspicious"
    assert batch_size(case).answer == "suspicious"
    assert "threads on" in threads(case).evidence
    report = diagnose(case.patient.module, case.patient.batch, pad_id=0, symptom="slow")
    assert report.walk is not None and "padding" in report.walk.cause
    assert report.walk.steps[-1].answer == "unknown"


def test_waiting_for_data_is_read_from_the_log(tmp_path: Any) -> None:
    line = json.dumps({"kind": "train", "step": 10, "data_share": 0.4})
    (tmp_path / "metrics.jsonl").write_text(line + "\n")
    found = data_wait(Case(Patient(folder=tmp_path)))
    assert found.answer == "suspicious" and "40%" in found.evidence


@pytest.mark.parametrize("symptom", [each for each in WALKS if each != "slow"])
def test_a_sound_model_has_no_cause(symptom: str) -> None:
    torch.manual_seed(0)
    module = Transformer(BASE)
    source, target = torch.randint(4, 29, (3, 9)), torch.randint(4, 29, (3, 8))
    report = diagnose(module, {"ids": source, "target": target}, symptom=symptom, cost="probe")
    assert report.walk is not None
    assert not report.walk.cause, report.of("fail", "warn")
    assert "Nothing was found" in "\n".join(report.walk.lines())
