"""Packed rows: no document sees another, and each comes out as if it stood alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from gnomon.errors import ModelError
from gnomon.model import Transformer, TransformerConfig
from gnomon.model.attend import use_backend
from gnomon.model.documents import Documents
from model_configs import BASE, CONFIGS, changed

LENGTHS = [[5, 1, 30, 4], [40], [17, 23]]  # of the documents in each row


def one_stack(config: TransformerConfig) -> list[TransformerConfig]:
    found = []
    for family in ("decoder", "encoder"):
        tie = "all" if config.tie == "decoder" else config.tie
        found.append(replace(config, family=family, tie=tie, target_vocab_size=None, pad_id=None))
    return [each for each in found if not each.problems()]


FITTING = {
    f"{name}-{each.family}": each
    for name, config in CONFIGS.items()
    for each in one_stack(config)
    if each.position.rope.scaling != "dynamic_ntk"
    and (each.max_positions() is None or each.max_positions() >= 40)
}


def numbers() -> Tensor:
    return torch.tensor([[i for i, n in enumerate(row) for _ in range(n)] for row in LENGTHS])


def hidden(model: Transformer, ids: Tensor, documents: Tensor | None = None) -> Tensor:
    read = model.decode if model.config.family == "decoder" else model.encode
    return read(ids, documents=documents)


@pytest.mark.parametrize("name", FITTING)
def test_a_packed_document_is_what_it_is_alone(name: str) -> None:
    torch.manual_seed(1)
    model = Transformer(FITTING[name]).double().eval()
    ids = torch.randint(4, model.config.vocab_size, (3, 40))
    with torch.no_grad():
        packed = hidden(model, ids, numbers())
        with use_backend("reference"):
            torch.testing.assert_close(packed, hidden(model, ids, numbers()))
        for row, lengths in enumerate(LENGTHS):
            start = 0
            for length in lengths:
                part = slice(start, start + length)
                alone = hidden(model, ids[row : row + 1, part])[0]
                torch.testing.assert_close(packed[row, part], alone)
                start += length


def test_gradients_are_those_of_the_dense_mask() -> None:
    torch.manual_seed(1)
    model = Transformer(changed(BASE, {"family": "decoder"})).double().eval()
    ids = torch.randint(4, model.config.vocab_size, (3, 40))
    found = []
    for backend in (None, "reference"):
        model.zero_grad()
        if backend is None:
            hidden(model, ids, numbers()).square().sum().backward()
        else:
            with use_backend(backend):
                hidden(model, ids, numbers()).square().sum().backward()
        found.append([p.grad.clone() for p in model.parameters()])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


def test_what_another_document_says_changes_nothing() -> None:
    torch.manual_seed(1)
    model = Transformer(changed(BASE, {"family": "decoder"})).eval()
    ids = torch.randint(4, model.config.vocab_size, (3, 40))
    other = ids.clone()
    other[0, :6] = 3  # the first two documents of the first row
    with torch.no_grad():
        one, two = hidden(model, ids, numbers()), hidden(model, other, numbers())
    assert torch.equal(one[0, 6:], two[0, 6:])
    assert not torch.equal(one[0, :6], two[0, :6])


def test_documents_are_grouped_by_length() -> None:
    documents = Documents(numbers())
    assert [tuple(group.real.sum(1).tolist()) for group in documents.groups] == [
        (5, 1, 4),
        (30, 17, 23),
        (40,),
    ]
    assert documents.positions[0].tolist() == [*range(5), 0, *range(30), *range(4)]


def test_packed_rows_go_without_padding_and_cache() -> None:
    model = Transformer(changed(BASE, {"family": "decoder"})).eval()
    ids = torch.randint(4, model.config.vocab_size, (3, 40))
    with pytest.raises(ModelError, match="documents"):
        model.decode(ids, documents=numbers(), cache=model.new_cache())
