"""A crash bundle of one's own model: its code is found, said, and run only where it is named."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from gnomon import api
from gnomon.doctor import Report
from gnomon.doctor.monitors import watch
from gnomon.doctor.targets import Options, open_target
from gnomon.errors import DoctorError, TrainingStopped

CODE = """
from pathlib import Path

import torch
from torch import nn

Path(__file__).with_name("ran").touch()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.head = nn.Linear(8, 20)

    def forward(self, ids):
        return self.head(self.layer(self.embed(ids)))


def build():
    return Net()


def training():
    def loss(module, batch):
        logits = module(batch["ids"])
        return nn.functional.cross_entropy(logits.flatten(0, 1), batch["ids"].flatten())

    return {"module": Net(), "loss": loss}


def of_labels():
    return {"module": Net(), "loss": lambda module, batch: module(batch["ids"]).sum() / batch["n"]}


def wider():
    return nn.Linear(3, 3)
"""


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The bundle of a step whose second projection is too large, by a loop in another folder."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "own_net.py").write_text(CODE)
    monkeypatch.syspath_prepend(str(home))
    monkeypatch.chdir(home)
    import own_net  # type: ignore[import-not-found]

    torch.manual_seed(0)
    model = own_net.Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with torch.no_grad():
        model.layer.linear2.weight.mul_(1e38)
        model.layer.linear1.bias.fill_(1e3)
    with watch(model, optimizer, folder=tmp_path / "run") as monitor:
        logits = model(torch.arange(1, 13).view(2, 6))
        logits.sum().backward()
        with pytest.raises(TrainingStopped, match=r"--code own_net\.py:FUNCTION"):
            monitor.step(logits.sum())
    del sys.modules["own_net"]
    (home / "ran").unlink()
    return tmp_path / "run/bundles/step-00000001"


def examined(bundle: Path, **options: str) -> Report:
    return api.examine_target(bundle, Options(**options))  # type: ignore[arg-type]


def test_code_that_is_not_named_is_found_but_not_run(bundle: Path, tmp_path: Path) -> None:
    found = open_target(bundle, Options())
    (note,) = found.notes
    assert "--code own_net.py:Net" in note and "own_net.Net" in note
    assert [each.code for each in examined(bundle)] == ["non-finite"]
    assert not (tmp_path / "home/ran").exists()


def test_a_file_that_was_moved_is_looked_for_here_and_by_the_bundle(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    (tmp_path / "home/own_net.py").rename(bundle.parent / "own_net.py")
    assert f"{bundle.parent / 'own_net.py'}:Net" in open_target(bundle, Options()).notes[0]
    (bundle.parent / "own_net.py").rename(elsewhere / "own_net.py")
    assert "--code own_net.py:Net" in open_target(bundle, Options()).notes[0]
    (elsewhere / "own_net.py").unlink()
    assert "--code FILE.py:Net" in open_target(bundle, Options()).notes[0]


@pytest.mark.parametrize("function", ["Net", "build"])
def test_the_step_is_made_again_with_the_code_that_is_named(bundle: Path, function: str) -> None:
    found = open_target(bundle, Options(code=f"own_net.py:{function}"))
    assert any("ran the file's code" in note for note in found.notes)
    report = examined(bundle, code=f"own_net.py:{function}")
    first = report.findings[0]
    assert first.code == "non-finite" and first.verdict == "fail"
    assert "run again from its bundle" in first.evidence
    assert first.where[0].startswith("layer")
    assert len(report.findings) > 10, "the model itself is examined as well"


def test_the_users_loss_is_used_where_the_inputs_suffice(bundle: Path) -> None:
    found = open_target(bundle, Options(code="own_net.py:training"))
    assert not any("forward pass alone" in note for note in found.notes)
    assert found.patient.replay is not None and found.patient.replay().verdict == "fail"
    found = open_target(bundle, Options(code="own_net.py:of_labels"))
    assert any("'n'" in note and "forward pass alone" in note for note in found.notes)
    assert found.patient.replay is not None and found.patient.replay().verdict == "fail"


@pytest.mark.parametrize(
    ("target", "code", "told"),
    [
        (True, "own_net.py", "a file and a function"),
        (True, "own_net.py:wider", "other parameters"),
        (True, "own_net.py:nothing", "no function nothing"),
        (False, "own_net.py:Net", "no bundle"),
    ],
)
def test_slips_are_told(bundle: Path, target: bool, code: str, told: str) -> None:
    with pytest.raises(DoctorError, match=told):
        open_target(bundle if target else "own_net.py:build", Options(code=code))
