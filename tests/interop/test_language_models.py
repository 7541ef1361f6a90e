"""Decoders that were taken in go on as transformers' do."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import gnomon
from gnomon.interop import import_model
from interop.zoo import save

PROMPTS = ["w1 w2 w3", "w4", "w5 w6 w7 w8 w9"]


@pytest.mark.parametrize("name", ["gpt2", "llama", "mistral", "qwen2"])
def test_greedy_is_that_of_transformers(name: str, tmp_path: Path) -> None:
    theirs = save(name, tmp_path / "theirs")
    import_model(tmp_path / "theirs", tmp_path / "ours")
    model = gnomon.load(tmp_path / "ours")
    for prompt, found in zip(PROMPTS, model.generate(PROMPTS, max_tokens=8), strict=True):
        ids = torch.tensor([model.vocabulary.encode([prompt])[0]])
        with torch.no_grad():
            new = theirs.generate(
                ids, max_new_tokens=8, do_sample=False, suppress_tokens=[2], pad_token_id=0
            )[0, ids.shape[1] :].tolist()
        new = new[: new.index(3)] if 3 in new else new
        assert found.text.strip() == model.vocabulary.decode(new).strip()
