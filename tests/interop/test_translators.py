"""Models of two stacks translate as transformers generates, and through the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import gnomon
from gnomon.interop import import_model
from gnomon.text import PretrainedTokenizer
from interop.zoo import save

TEXTS = ["w1 w2 w3", "w4", "w5 w6 w7 w8 w9 w10 w11", "w3 w3 w3"]


@pytest.mark.parametrize("name", ["marian", "bart", "mbart", "t5", "t5_1.1", "mt5"])
def test_greedy_is_that_of_transformers(name: str, tmp_path: Path) -> None:
    theirs = save(name, tmp_path / "theirs")
    import_model(tmp_path / "theirs", tmp_path / "ours")
    translator = gnomon.load(tmp_path / "ours")
    tokenizer = translator.tokenizers.source
    assert isinstance(tokenizer, PretrainedTokenizer)
    for text, found in zip(TEXTS, translator.translate(TEXTS, beam=1), strict=True):
        ids = torch.tensor([tokenizer.frame([text])[0].ids])
        limit = translator.search.max_lengths([ids.shape[1]])[0]
        ends = {translator.ids.end}
        never = sorted({translator.ids.pad, translator.ids.start} - ends)
        with torch.no_grad():
            expected = theirs.generate(
                ids,
                num_beams=1,
                do_sample=False,
                max_new_tokens=limit,
                suppress_tokens=never,
                forced_eos_token_id=None,
            )[0, 1:].tolist()
        if translator.ids.end in expected:
            expected = expected[: expected.index(translator.ids.end) + 1]
        assert found.num_tokens == len(expected)
        assert found.text == tokenizer.decode([expected])[0]


def test_what_was_translated_is_scored_and_aligned(tmp_path: Path) -> None:
    """Scores read what the search wrote: same ids around, same probability."""
    save("bart", tmp_path / "theirs")
    import_model(tmp_path / "theirs", tmp_path / "ours")
    translator = gnomon.load(tmp_path / "ours")
    found = translator.translate(TEXTS, beam=1)
    whole = [i for i, each in enumerate(found) if not each.truncated and each.text]
    scores = translator.score([TEXTS[i] for i in whole], [found[i].text for i in whole])
    for i, score in zip(whole, scores, strict=True):
        if score.num_tokens == found[i].num_tokens:
            assert score.log_prob == pytest.approx(found[i].log_prob, abs=1e-4)
    for alignment in translator.align(TEXTS, ["w1 w2"] * len(TEXTS)):
        assert len(alignment.target) == 2


def test_prefixes_and_training_are_refused_by_name(tmp_path: Path) -> None:
    save("marian", tmp_path / "theirs")
    import_model(tmp_path / "theirs", tmp_path / "ours")
    translator: Any = gnomon.load(tmp_path / "ours")
    with pytest.raises(gnomon.GnomonError, match="vocabulary that gnomon learned"):
        translator.translate(["w1"], prefixes=["w2"])
    with pytest.raises(gnomon.GnomonError, match="vocabulary that gnomon learned"):
        translator.tokenizers.own()
