"""Models that gnomon trained, in transformers' hands: the same ids, vectors and words."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import pytest
import torch

from gnomon.decoding import SearchConfig
from gnomon.errors import ModelError
from gnomon.interop import export_model, import_model
from gnomon.model import Transformer, TransformerConfig
from gnomon.tasks import Encoder, LanguageModel, load_encoder, load_language_model
from gnomon.tasks.embedding import EncoderConfig
from gnomon.tasks.encoder_folder import save_encoder
from gnomon.tasks.language_folder import save_language_model
from gnomon.text import Tokenizer, VocabularyConfig
from gnomon.text.framing import MASK, OwnFraming
from gnomon.text.vocabulary import Vocabulary
from model_configs import BASE, LLAMA, changed

LINES = ["a dog runs", "the dog sleeps 12", "a cat runs and runs", "猫 sleeps, too"] * 5
TEXTS = ["", "a dog", " the  cat 34 runs, and sleeps!", "猫が走る é", "tab\tor\nbreak"]
BERT_LIKE = {
    "family": "encoder",
    "attention.bias_query_key": True,
    "attention.bias_value": True,
    "attention.bias_out": True,
    "feedforward.activation": "gelu",
    "norm.eps": 1e-12,
    "position.kind": "learned",
    "position.max_length": 64,
    "embedding.scale": False,
    "embedding.norm": True,
    "head.kind": "transform",
    "head.bias": True,
}


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(LINES, VocabularyConfig(vocab_size=320), (MASK,))


def model_of(tokenizer: Tokenizer, **changes: Any) -> Transformer:
    config: TransformerConfig = changed(BASE, {**changes, "vocab_size": tokenizer.vocab_size})
    torch.manual_seed(5)
    model = Transformer(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
    return model.eval()


@pytest.mark.parametrize("num_segments", [1, 2])
def test_an_encoder(tokenizer: Tokenizer, num_segments: int, tmp_path: Path) -> None:
    import transformers

    model = model_of(tokenizer, **BERT_LIKE, **{"embedding.num_segments": num_segments})
    ours = Encoder(model, OwnFraming(tokenizer), EncoderConfig(max_length=48))
    save_encoder(ours, tmp_path / "ours")
    export_model(tmp_path / "ours", tmp_path / "back")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "back")
    assert (theirs.mask_token, theirs.mask_token_id) == (MASK, ours.framing.mask_id)
    for pairs in (None, TEXTS[::-1]):
        rows = ours.framing.frame(TEXTS, pairs)
        given = theirs(TEXTS, pairs)
        assert given["input_ids"] == [row.ids for row in rows]
        if num_segments == 2:
            assert given["token_type_ids"] == [row.segments for row in rows]
        else:
            assert "token_type_ids" not in given
    back = transformers.AutoModel.from_pretrained(tmp_path / "back").eval()
    for text, pair in zip(TEXTS, TEXTS[::-1], strict=True):
        with torch.no_grad():
            hidden = back(**theirs([text], [pair], return_tensors="pt")).last_hidden_state[0]
        vector = ours.embed([text], [pair])[0]
        np.testing.assert_allclose(vector, hidden.mean(0).numpy(), atol=5e-6)
    import_model(tmp_path / "back", tmp_path / "again")
    again = load_encoder(tmp_path / "again")
    np.testing.assert_allclose(again.embed(TEXTS), ours.embed(TEXTS), atol=1e-6)


@pytest.mark.parametrize("table", [{"pooling": "pooler"}, {"poolings": "mean"}], ids=str)
def test_vectors_that_nobody_else_makes(
    tokenizer: Tokenizer, table: dict[str, str], tmp_path: Path
) -> None:
    import json

    model = model_of(tokenizer, **BERT_LIKE, **{"embedding.num_segments": 2, "pooler": True})
    save_encoder(Encoder(model, OwnFraming(tokenizer), EncoderConfig()), tmp_path / "ours")
    path = tmp_path / "ours" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"encoder": table}))
    with pytest.raises(ModelError, match=r"pooler|damaged"):
        export_model(tmp_path / "ours", tmp_path / "back")
    assert not (tmp_path / "back").exists()


def test_a_language_model(tokenizer: Tokenizer, tmp_path: Path) -> None:
    import transformers

    model = model_of(tokenizer, **LLAMA)
    ours = LanguageModel(model, Vocabulary(OwnFraming(tokenizer)), context=32)
    save_language_model(ours, tmp_path / "ours")
    export_model(tmp_path / "ours", tmp_path / "back")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "back")
    encoded = ours.vocabulary.encode(TEXTS)
    assert theirs(TEXTS)["input_ids"] == [[ours.vocabulary.begin_id, *ids] for ids in encoded]
    back = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "back").eval()
    for found, text in zip(ours.generate(TEXTS, max_tokens=9), TEXTS, strict=True):
        given = theirs(text, return_tensors="pt")
        (whole,) = back.generate(**given, max_new_tokens=9, do_sample=False).tolist()
        prompt = given["input_ids"].shape[1]
        before, after = (ours.vocabulary.decode(ids) for ids in (whole[:prompt], whole))
        assert after == before + found.text
        assert found.num_tokens == len(whole) - prompt
    import_model(tmp_path / "back", tmp_path / "again")
    again = load_language_model(tmp_path / "again")
    chat = LanguageModel(model, ours.vocabulary, search=SearchConfig(beam=1, sample=True), ends=[9])
    save_language_model(chat, tmp_path / "chat")
    kept = load_language_model(tmp_path / "chat")
    assert (kept.search, kept.ends) == (chat.search, (9,))
    for one, other in zip(again.score(TEXTS), ours.score(TEXTS), strict=True):
        assert one.log_prob == pytest.approx(other.log_prob, abs=1e-4)
