"""An encoder's vectors: the hidden states of transformers, pooled; alone as in any batch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import gnomon
from gnomon import api
from gnomon.errors import DataError, ModelError, RecipeError
from gnomon.interop import export_model, import_model
from gnomon.tasks import load_encoder, save_encoder
from interop.zoo import save

TEXTS = ["w1 w2 w3", "", "w4", "w5 w6 w7 w8 w9 w10 w11", "nothing known here"]


def sentence_folder(folder: Path, name: str, pooling: str, normalise: bool, length: int) -> Any:
    """A random model in the form of sentence-transformers."""
    theirs = save(name, folder)
    kinds = ["Transformer", "Pooling", *(["Normalize"] if normalise else [])]
    modules = [
        {"idx": i, "name": str(i), "path": f"{i}_{kind}" if i else "", "type": f"x.models.{kind}"}
        for i, kind in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    flags = {f"pooling_mode_{kind}": kind == pooling for kind in ("cls_token", "mean_tokens")}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(flags))
    settings = {"max_seq_length": length, "do_lower_case": False}
    (folder / "sentence_bert_config.json").write_text(json.dumps(settings))
    return theirs


@torch.no_grad()
@pytest.mark.parametrize("name", ["bert_base", "roberta", "distilbert"])
def test_vectors_are_those_of_transformers(name: str, tmp_path: Path) -> None:
    theirs = sentence_folder(tmp_path / "theirs", name, "mean_tokens", True, 12)
    import_model(tmp_path / "theirs", tmp_path / "ours")
    encoder = gnomon.load(tmp_path / "ours")
    found = encoder.embed(TEXTS)
    for text, vector in zip(TEXTS, found, strict=True):
        ids = torch.tensor([encoder.framing.frame([text])[0].ids])
        hidden = theirs(ids, output_hidden_states=True).hidden_states[-1][0]
        expected = torch.nn.functional.normalize(hidden.mean(0), dim=0).numpy()
        np.testing.assert_allclose(vector, expected, atol=2e-6)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-6)


def test_a_text_has_one_vector_whatever_is_beside_it(tmp_path: Path) -> None:
    sentence_folder(tmp_path / "theirs", "bert_base", "cls_token", False, 12)
    import_model(tmp_path / "theirs", tmp_path / "ours")
    encoder = load_encoder(tmp_path / "ours")
    together = encoder.embed(TEXTS)
    for batch_tokens in (1, 20):
        np.testing.assert_allclose(
            encoder.embed(TEXTS, batch_tokens=batch_tokens), together, atol=2e-6
        )
    backwards = encoder.embed(TEXTS[::-1])[::-1]
    np.testing.assert_allclose(backwards, together, atol=2e-6)


def test_poolings_differ_and_are_what_they_say(tmp_path: Path) -> None:
    save("bert_base", tmp_path / "theirs")
    import_model(tmp_path / "theirs", tmp_path / "ours")
    encoder = load_encoder(tmp_path / "ours")
    ids = torch.tensor([encoder.framing.frame(["w1 w2 w3"])[0].ids])
    with torch.no_grad():
        hidden = encoder.model.encode(ids)[0]
    expected = {
        "mean": hidden.mean(0),
        "first": hidden[0],
        "last": hidden[-1],
        "max": hidden.amax(0),
        "pooler": encoder.model.pool(hidden[None])[0],
    }
    for pooling, vector in expected.items():
        found = encoder.embed(["w1 w2 w3", "w1 w2 w3 w4 w5 w6"], pooling=pooling)[0]  # type: ignore[arg-type]
        np.testing.assert_allclose(found, vector.detach().numpy(), atol=2e-6, err_msg=pooling)
    with pytest.raises(RecipeError, match="pooling is one of"):
        encoder.embed(["w1"], pooling="median")  # type: ignore[arg-type]


def test_texts_that_are_too_long(tmp_path: Path) -> None:
    sentence_folder(tmp_path / "theirs", "bert_base", "mean_tokens", False, 12)
    import_model(tmp_path / "theirs", tmp_path / "ours")
    encoder = load_encoder(tmp_path / "ours")
    long = " ".join(f"w{n}" for n in range(15))
    with pytest.raises(DataError, match="text 2 has 17"):
        encoder.embed(["w1", long])
    cut = encoder.embed([long], truncate=True)
    short = encoder.embed([" ".join(f"w{n}" for n in range(10))])
    np.testing.assert_array_equal(cut, short)


def test_an_extended_sentence_encoder_reads_further(tmp_path: Path) -> None:
    sentence_folder(tmp_path / "theirs", "bert_base", "mean_tokens", True, 12)
    import_model(tmp_path / "theirs", tmp_path / "ours")
    done = api.extend(tmp_path / "ours", tmp_path / "long", method="resize", length=48)
    assert "encoder.max_length: 12 → 48" in done.changes
    encoder = load_encoder(tmp_path / "long")
    assert encoder.longest == 48
    assert encoder.embed([" ".join(["w1"] * 40)]).shape == (1, 16)


def test_broken_weights_give_no_vector(tmp_path: Path) -> None:
    save("bert_base", tmp_path / "theirs")
    import_model(tmp_path / "theirs", tmp_path / "ours")
    encoder = load_encoder(tmp_path / "ours")
    with torch.no_grad():
        encoder.model.table("source")[9] = torch.nan
    (piece,) = encoder.framing.pieces([9])
    with pytest.raises(ModelError, match="first for text 2"):
        encoder.embed(["w20", piece])


def test_second_texts_have_their_segment(tmp_path: Path) -> None:
    theirs = save("bert_base", tmp_path / "theirs")
    import_model(tmp_path / "theirs", tmp_path / "ours")
    encoder = load_encoder(tmp_path / "ours")
    row = encoder.framing.frame(["w1 w2"], ["w3"])[0]
    assert row.segments == [0, 0, 0, 0, 1, 1]
    with torch.no_grad():
        hidden = theirs(torch.tensor([row.ids]), token_type_ids=torch.tensor([row.segments]))
    found = encoder.embed(["w1 w2"], ["w3"], pooling="mean")[0]
    np.testing.assert_allclose(found, hidden.last_hidden_state[0].mean(0).numpy(), atol=2e-6)


@pytest.mark.parametrize(
    ("file", "content", "seen"),
    [
        ("modules.json", [{"path": "", "type": "Transformer"}, {"type": "Dense"}], "Dense"),
        ("1_Pooling/config.json", {"pooling_mode_mean_sqrt_len_tokens": True}, "mean_sqrt_len"),
        (
            "1_Pooling/config.json",
            {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True},
            "mean_tokens, cls_token",
        ),
        ("config_sentence_transformers.json", {"default_prompt_name": "query"}, "query"),
    ],
)
def test_sentence_encoders_of_another_kind(
    tmp_path: Path, file: str, content: Any, seen: str
) -> None:
    sentence_folder(tmp_path / "theirs", "bert_base", "mean_tokens", True, 12)
    (tmp_path / "theirs" / file).write_text(json.dumps(content))
    with pytest.raises(ModelError, match=seen):
        import_model(tmp_path / "theirs", tmp_path / "ours")


def test_an_encoder_without_a_past_is_exported(tmp_path: Path) -> None:
    """As a training leaves it: no foreign folder beside it."""
    theirs = sentence_folder(tmp_path / "theirs", "bert_masked", "mean_tokens", True, 12)
    import_model(tmp_path / "theirs", tmp_path / "ours")
    encoder = load_encoder(tmp_path / "ours")
    save_encoder(encoder, tmp_path / "plain")
    assert not (tmp_path / "plain" / "huggingface").exists()
    export_model(tmp_path / "plain", tmp_path / "back")
    import transformers

    back = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "back").eval()
    ids = torch.tensor([encoder.framing.frame(["w1 w2 w3"])[0].ids])
    with torch.no_grad():
        assert torch.equal(back(ids).logits, theirs(ids).logits)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "back")
    assert tokenizer("w1 w2")["input_ids"] == encoder.framing.frame(["w1 w2"])[0].ids
    import_model(tmp_path / "back", tmp_path / "again")
    again = load_encoder(tmp_path / "again")
    assert again.config == encoder.config
    np.testing.assert_array_equal(again.embed(TEXTS), encoder.embed(TEXTS))


def test_a_classifier_is_fine_tuned_from_an_encoder_with_a_pooler(tmp_path: Path) -> None:
    from gnomon.api.jobs.base import network_of, open_base
    from gnomon.recipes import load_recipe

    save("bert_base", tmp_path / "theirs")
    import_model(tmp_path / "theirs", tmp_path / "ours")
    base = open_base(tmp_path / "ours")
    recipe: Any = load_recipe("classifier")
    assert not network_of(recipe, base.network.config).pooler  # type: ignore[arg-type]
    taken = base.network_for(recipe)
    given = base.network.state_dict()
    assert all(torch.equal(value, given[name]) for name, value in taken.state_dict().items())
