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
from gnomon.doctor.walks import WALKS, Proof, Walk, codes_of
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
    walk = walk_through("nan", stations, Case(Patient()), found)
    assert (walk.cause, walk.code) == ("two", "two")
    assert [step.answer for step in walk.steps] == ["suspicious", "wrong", "wrong"]
    walk = walk_through("nan", stations, Case(Patient()), [])
    assert not walk.code and {step.answer for step in walk.steps} == {"unknown"}


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


class Reads(nn.Module):
    """One layer of attention without a scale, that all must pass or that hardly anything does."""

    def __init__(self, size: float, *, around: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.place = nn.Embedding(60, 64), nn.Embedding(32, 64)
        self.query, self.key, self.value = (nn.Linear(64, 64, bias=False) for _ in range(3))
        for each in (self.query, self.key):
            nn.init.normal_(each.weight, std=size)
        self.norm, self.head, self.around = nn.LayerNorm(64), nn.Linear(64, 60), around

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids) + self.place(torch.arange(ids.size(1)))
        scores = self.query(x) @ self.key(x).transpose(1, 2)
        ahead = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        weights = scores.masked_fill(ahead, -torch.inf).softmax(-1)
        read = weights @ self.value(x)
        logits: torch.Tensor = self.head(self.norm(x + 0.01 * read if self.around else read))
        return logits


def next_token(module: nn.Module, batch: dict[str, torch.Tensor]) -> torch.Tensor:
    ids = batch["ids"]
    return nn.functional.cross_entropy(module(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


def stuck(module: nn.Module) -> Walk:
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3, weight_decay=0.1)
    ids = torch.randint(1, 60, (4, 16), generator=torch.Generator().manual_seed(0))
    kept = {name: p.clone() for name, p in module.named_parameters()}
    report = diagnose(module, {"ids": ids}, loss=next_token, optimizer=optimizer, symptom="stuck")
    assert all(torch.equal(kept[name], p) for name, p in module.named_parameters())
    assert len(optimizer.param_groups) == 1 and not optimizer.state
    assert report.walk is not None
    return report.walk


def test_what_was_measured_to_act_is_named_first() -> None:
    walk = stuck(Reads(size=64**-0.5))
    assert walk.code == "score-scale"
    assert walk.proof is not None and walk.proof.matters and walk.proof.gain > 0.1
    effects = {proof.code: proof for proof in walk.proofs}
    assert effects["decay-on-norms"].matters is False
    assert "no effect" in effects["decay-on-norms"].effect
    text = "\n".join(walk.lines())
    assert text.index("Proven (score-scale)") < text.index("without effect on the loss (decay")


def test_a_mend_without_effect_is_no_explanation() -> None:
    walk = stuck(Reads(size=0.01, around=True))
    assert {proof.code for proof in walk.proofs} >= {"score-scale", "decay-on-norms"}
    assert not any(proof.matters for proof in walk.proofs)
    assert (walk.code, walk.cause) == ("", "")
    text = "\n".join(walk.lines())
    assert "mended on a copy, and the loss falls no faster" in text
    assert "hardly any gradient" not in text


def test_suspects_rank_by_what_their_mends_do() -> None:
    def finding(code: str, verdict: str) -> Finding:
        return Finding(code, "masks", "", verdict, "seen", cause=code, mend="m")  # type: ignore[arg-type]

    def conclude(found: list[Finding], **matters: bool) -> str:
        def prove(each: Finding) -> Proof | None:
            acts = matters.get(each.code)
            gain = 0.5 if acts else 0.0
            return (
                None if acts is None else Proof(each.code, "", "", True, each.code, "e", gain, acts)
            )

        stations = [Station("a?", ("one",)), Station("b?", ("two",)), Station("c?", ("three",))]
        return walk_through("stuck", stations, Case(Patient()), found, prove).code

    warned = [finding(code, "warn") for code in ("one", "two", "three")]
    assert conclude(warned) == "one"
    assert conclude(warned, one=False) == "two"
    assert conclude(warned, one=False, three=True) == "three"
    assert conclude(warned, one=False, two=False, three=False) == ""
    failed = [finding("one", "warn"), finding("two", "fail")]
    assert conclude(failed, one=False, two=False) == "two"
    assert conclude(failed, one=True) == "one"
