"""Models on disk and between devices: nothing lost, ties kept, mistakes named."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

from gnomon.errors import ModelError
from gnomon.model import Transformer, count_parameters, load_model, read_config, save_model
from model_configs import BASE, CONFIGS, changed


def logits(model: Transformer) -> torch.Tensor:
    ids = torch.arange(1, 15).view(2, 7)
    with torch.no_grad():
        if model.head is None:
            return model.encode(ids)
        result: torch.Tensor = (
            model(ids, ids[:, :5]) if model.config.family == BASE.family else model(ids)
        )
        return result


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
def test_a_loaded_model_is_the_saved_one(config: object, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Transformer(config).eval()  # type: ignore[arg-type]
    save_model(model, tmp_path)
    loaded = load_model(tmp_path)
    assert loaded.config == model.config
    assert not loaded.training
    assert torch.equal(logits(loaded), logits(model))
    assert all(parameter.requires_grad for parameter in loaded.parameters())
    assert all(not parameter.is_meta for parameter in loaded.parameters())


def test_dtype_is_kept(tmp_path: Path) -> None:
    save_model(Transformer(BASE).to(torch.bfloat16), tmp_path)
    assert {p.dtype for p in load_model(tmp_path).parameters()} == {torch.bfloat16}


@pytest.mark.parametrize(
    ("tie", "tables"),
    [
        ("all", ["source"]),
        ("decoder", ["source", "target"]),
        ("none", ["output", "source", "target"]),
    ],
)
def test_tied_tables_are_one_storage_whatever_happens(
    tie: str, tables: list[str], tmp_path: Path
) -> None:
    config = changed(BASE, {"tie": tie})
    model = Transformer(config)

    def check(model: Transformer) -> None:
        pointers = [model.table(role).data_ptr() for role in ("source", "target", "output")]
        assert len(set(pointers)) == len(tables)
        if tie != "none":
            assert pointers[1] == pointers[2]
        names = [name for name, _ in model.named_parameters() if name.startswith("tables.")]
        assert names == [f"tables.{table}" for table in tables]

    check(model)
    save_model(model, tmp_path)
    with safe_open(tmp_path / "model.safetensors", framework="pt") as file:
        stored = [name for name in file.keys() if "tables" in name]  # noqa: SIM118
    assert sorted(stored) == [f"tables.{table}" for table in tables]
    check(load_model(tmp_path))
    check(copy.deepcopy(model))
    check(model.to(torch.float64).to(torch.float32))
    with torch.device("meta"):
        empty = Transformer(config)
    empty.to_empty(device="cpu")
    check(empty)
    empty.load_state_dict(model.state_dict())
    assert torch.equal(logits(empty.eval()), logits(model.eval()))
    # one update moves all uses
    ids = torch.randint(1, 29, (2, 5))
    loaded = load_model(tmp_path).train()
    optimizer = torch.optim.SGD(loaded.parameters(), lr=0.1)
    loaded(ids, ids).square().sum().backward()
    optimizer.step()
    check(loaded)


def test_tying_saves_one_table() -> None:
    sizes = {tie: count_parameters(Transformer(changed(BASE, {"tie": tie}))) for tie in
             ("none", "decoder", "all")}  # fmt: skip
    table = BASE.vocab_size * BASE.d_model
    assert sizes["none"] - sizes["decoder"] == sizes["decoder"] - sizes["all"] == table


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
def test_every_parameter_has_one_role(config: object) -> None:
    model = Transformer(config)  # type: ignore[arg-type]
    roles = model.parameter_roles()
    assert list(roles) == [name for name, _ in model.named_parameters()]
    for name, role in roles.items():
        parameter = model.get_parameter(name)
        if "norm" in name:
            assert role == "norm", name
        elif name.endswith("bias") or "score_bias" in name:
            assert role == "bias", name
        elif name.startswith("tables") or "embedding" in name:
            assert role == "embedding", name
        else:
            assert role == "matrix" and parameter.dim() == 2, name


def test_a_table_tells_its_width_as_sizes_in_the_paper() -> None:
    """The 2017 base model has about 65 million parameters (Vaswani et al., table 3)."""
    from gnomon.model import TransformerConfig

    with torch.device("meta"):
        model = Transformer(TransformerConfig())
    assert count_parameters(model) == pytest.approx(65e6, rel=0.04)


class TestMistakes:
    def saved(self, folder: Path) -> Path:
        save_model(Transformer(BASE), folder)
        return folder / "config.json"

    def rewritten(self, folder: Path, change: object) -> None:
        path = self.saved(folder)
        config = json.loads(path.read_text())
        change(config)  # type: ignore[operator]
        path.write_text(json.dumps(config))

    def test_no_model_there(self, tmp_path: Path) -> None:
        with pytest.raises(ModelError, match="not a model folder"):
            load_model(tmp_path)

    def test_a_newer_format(self, tmp_path: Path) -> None:
        self.rewritten(tmp_path, lambda config: config.update(format_version=2))
        with pytest.raises(ModelError, match="format_version 2"):
            load_model(tmp_path)

    def test_unknown_keys(self, tmp_path: Path) -> None:
        self.rewritten(tmp_path, lambda config: config["model"]["norm"].update(sort="rms"))
        with pytest.raises(ModelError, match=r"norm\.sort"):
            read_config(tmp_path)

    def test_a_damaged_config(self, tmp_path: Path) -> None:
        path = self.saved(tmp_path)
        path.write_text(path.read_text()[:50])
        with pytest.raises(ModelError, match="damaged"):
            load_model(tmp_path)

    def test_wrong_types(self, tmp_path: Path) -> None:
        self.rewritten(tmp_path, lambda config: config["model"].update(d_model="wide"))
        with pytest.raises(ModelError, match="d_model"):
            load_model(tmp_path)

    def test_weights_of_another_model(self, tmp_path: Path) -> None:
        self.rewritten(tmp_path, lambda config: config["model"]["feedforward"].update(size=25))
        with pytest.raises(ModelError, match=r"feedforward\.up\.weight"):
            load_model(tmp_path)

    def test_cut_off_weights(self, tmp_path: Path) -> None:
        self.saved(tmp_path)
        weights = tmp_path / "model.safetensors"
        weights.write_bytes(weights.read_bytes()[:-100])
        with pytest.raises(ModelError, match=r"model\.safetensors"):
            load_model(tmp_path)

    def test_no_weights(self, tmp_path: Path) -> None:
        self.saved(tmp_path)
        (tmp_path / "model.safetensors").unlink()
        with pytest.raises(ModelError, match=r"model\.safetensors"):
            load_model(tmp_path)


def test_asking_for_what_a_family_does_not_have() -> None:
    ids = torch.ones((1, 3), dtype=torch.int64)
    with pytest.raises(ModelError, match="no encoder"):
        Transformer(replace(BASE, family="decoder")).encode(ids)
    with pytest.raises(ModelError, match="no decoder"):
        Transformer(replace(BASE, family="encoder")).decode(ids)
    with pytest.raises(ModelError, match="target"):
        Transformer(BASE)(ids)
    with pytest.raises(ModelError, match="memory"):
        Transformer(BASE).decode(ids)
    with pytest.raises(ModelError, match="head"):
        Transformer(CONFIGS["encoder_headless"]).project(torch.zeros(1, 3, 16))
