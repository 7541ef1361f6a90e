"""Every architecture: the same logits as transformers, and back bit for bit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from torch import Tensor

from gnomon.interop import Imported, export_model, import_model
from gnomon.model import Transformer, load_model
from interop.zoo import VOCAB_SIZE, ZOO, save
from two_times_rule import assert_two_times


@pytest.fixture(scope="module", params=sorted(ZOO))
def taken(request: Any, tmp_path_factory: Any) -> Iterator[tuple[str, Any, Path, Imported]]:
    folder: Path = tmp_path_factory.mktemp("zoo")
    theirs = save(request.param, folder / "theirs")
    done = import_model(folder / "theirs", folder / "ours", head=False)
    yield request.param, theirs, folder, done


def tensors(path: Path) -> dict[str, Tensor]:
    with safe_open(path, framework="pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def test_weights_go_back_bit_for_bit(taken: Any) -> None:
    _, _, folder, _ = taken
    export_model(folder / "ours", folder / "back")
    before = tensors(folder / "theirs" / "model.safetensors")
    after = tensors(folder / "back" / "model.safetensors")
    assert before.keys() == after.keys()
    for name in before:
        assert before[name].dtype == after[name].dtype
        assert torch.equal(before[name], after[name]), name
    for path in (folder / "theirs").glob("*.json"):
        assert json.loads(path.read_text()) == json.loads((folder / "back" / path.name).read_text())


def test_tied_tables_are_one(taken: Any) -> None:
    _, theirs, folder, _ = taken
    model = load_model(folder / "ours")
    output = theirs.get_output_embeddings()
    if output is None or model.head is None:
        return
    tables = theirs.get_decoder() if model.config.family == "encoder_decoder" else theirs
    tied = output.weight.data_ptr() == tables.get_input_embeddings().weight.data_ptr()
    used = "source" if model.config.family == "encoder" else "target"
    assert (model.table("output") is model.table(used)) == tied


@pytest.mark.parametrize("length", [1, 7, 20])
@pytest.mark.parametrize("padded", [False, True], ids=["whole", "padded"])
@torch.no_grad()
def test_outputs_are_those_of_transformers(taken: Any, length: int, padded: bool) -> None:
    name, theirs, folder, _ = taken
    model = load_model(folder / "ours")
    torch.manual_seed(length)
    ids = torch.randint(5, VOCAB_SIZE, (3, length))
    keep = torch.ones_like(ids, dtype=torch.bool)
    if padded:
        keep[1, (length + 1) // 2 :] = keep[2, 1:] = False
        ids = ids.masked_fill(~keep, model.config.pad_id or 0)
    target = torch.randint(5, VOCAB_SIZE, (3, max(1, length - 2)))
    candidate = ours(model, ids, keep, target)
    plain = reference(theirs, model, ids, keep, target)
    exact = reference(theirs.double(), model, ids, keep, target)
    theirs.float()
    if model.config.family != "encoder_decoder":
        candidate, plain, exact = candidate[keep], plain[keep], exact[keep]
    assert_two_times(candidate, plain, exact, name)


def ours(model: Transformer, ids: Tensor, keep: Tensor, target: Tensor) -> Tensor:
    if model.config.family == "encoder_decoder":
        return model(ids, target, keep=keep)
    if model.config.family == "decoder":
        return model(ids, keep=keep)
    hidden = model.encode(ids, keep)
    return hidden if model.head is None else model.project(hidden)


def reference(theirs: Any, model: Transformer, ids: Tensor, keep: Tensor, target: Tensor) -> Tensor:
    same = {"attention_mask": keep.long()}
    if model.config.family == "encoder_decoder":
        result: Tensor = theirs(ids, decoder_input_ids=target, **same).logits
        return result
    output = theirs(ids, **same, output_hidden_states=True)
    if model.head is not None and theirs.get_output_embeddings() is not None:
        return output.prediction_logits if "prediction_logits" in output else output.logits
    hidden: Tensor = output.hidden_states[-1]
    if model.head is not None:  # a base model whose head is its table
        return hidden @ theirs.get_input_embeddings().weight.T
    return hidden


@torch.no_grad()
def test_poolers_are_kept(taken: Any) -> None:
    name, theirs, folder, _ = taken
    model = load_model(folder / "ours")
    base = getattr(theirs, theirs.base_model_prefix, theirs)
    assert (model.pooler is not None) == (getattr(base, "pooler", None) is not None), name
    if model.pooler is not None:
        ids = torch.randint(5, VOCAB_SIZE, (2, 6))
        pooled = model.pool(model.encode(ids))
        torch.testing.assert_close(pooled, base(ids).pooler_output, rtol=1e-5, atol=1e-5)
