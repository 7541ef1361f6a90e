"""What users hand over and should not, and modules that refuse what others allow."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from gnomon.doctor import diagnose
from gnomon.doctor.targets.open import open_target
from gnomon.doctor.targets.target import Options
from gnomon.errors import DoctorError


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(50, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.head = nn.Linear(16, 50)

    def forward(self, ids: Tensor) -> Tensor:
        logits: Tensor = self.head(self.layer(self.embed(ids)))
        return logits


def ids() -> Tensor:
    return torch.randint(1, 50, (4, 8), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("detached", [False, True])
@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.SGD])
def test_a_loss_that_steps_the_optimizer_is_refused(kind: Any, detached: bool) -> None:
    model = Model()
    optimizer = kind(model.parameters(), lr=0.1)

    def loss(module: nn.Module, batch: Any) -> Tensor:
        found = nn.functional.cross_entropy(module(**batch).flatten(0, 1), batch["ids"].flatten())
        optimizer.zero_grad()
        found.backward()
        optimizer.step()
        return found.detach() if detached else found

    before, state = copy.deepcopy(model.state_dict()), copy.deepcopy(optimizer.state_dict())
    with pytest.raises(DoctorError, match=rf"{kind.__name__}\.step\(\)"):
        diagnose(model, {"ids": ids()}, loss=loss, optimizer=optimizer)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert optimizer.state_dict() == state and not optimizer.state
    assert all(p.grad is None for p in model.parameters())
    assert model.training
    optimizer.step()  # allowed again


def test_an_exported_program_is_examined_in_the_mode_it_is_in() -> None:
    rows, length = torch.export.Dim("rows", min=2), torch.export.Dim("length", min=2)
    program = torch.export.export(Model().eval(), (ids(),), dynamic_shapes=({0: rows, 1: length},))
    module = program.module()
    with pytest.raises(NotImplementedError):
        module.eval()
    report = diagnose(module, (ids(),), only=["noise-in-eval", "vocabulary-range", "non-finite"])
    assert report["noise-in-eval"].verdict == "pass", report["noise-in-eval"].evidence
    assert report["non-finite"].verdict == "pass", report["non-finite"].evidence
    with pytest.raises(NotImplementedError):  # as it was
        module.eval()


def test_a_part_that_refuses_its_mode_is_left_in_it() -> None:
    class Fixed(nn.Linear):
        def train(self, mode: bool = True) -> "Fixed":
            raise RuntimeError("quantised for good")

    model = Model()
    model.head = Fixed(16, 50)
    report = diagnose(model, {"ids": ids()}, only=["noise-in-eval"])
    assert report["noise-in-eval"].verdict == "pass", report["noise-in-eval"].evidence
    assert not {"train", "eval"} & set(vars(model.head))
    assert model.training and model.layer.training
    with pytest.raises(RuntimeError, match="quantised"):
        model.eval()


def test_padding_is_an_id_of_the_vocabulary(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from torch import nn\n\n\ndef patient():\n"
        "    return nn.Sequential(nn.Embedding(50, 16), nn.TransformerEncoderLayer(16, 2, 32))\n"
    )
    for pad_id, refused in ((100_000, True), (49, False)):
        options = Options(declared={"pad_id": pad_id})
        if refused:
            with pytest.raises(DoctorError, match="id of the vocabulary") as error:
                open_target(f"{file}:patient", options)
            assert "100000" in str(error.value)
        else:
            assert open_target(f"{file}:patient", options).patient.pad_id == pad_id
    with pytest.raises(DoctorError, match="0 or more"):
        diagnose(Model(), {"ids": ids()}, pad_id=-1)
    found = diagnose(Model(), {"ids": ids()}, pad_id=60, only=["vocabulary-range"])
    assert found["vocabulary-range"].verdict == "fail"
    assert "handed over" in found["vocabulary-range"].cause
