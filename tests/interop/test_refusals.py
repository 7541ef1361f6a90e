"""What cannot be taken in is refused by its name, and leaves nothing behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from gnomon.errors import CheckError, ModelError
from gnomon.interop import export_model, import_model
from gnomon.interop.stream import SafetensorsFile, open_weights
from gnomon.model import Transformer, TransformerConfig, load_model, save_model
from interop.zoo import save
from model_configs import BASE, LLAMA, changed


@pytest.fixture(scope="module")
def saved(tmp_path_factory: Any) -> dict[str, Path]:
    folders = {}
    for name in ("bert_masked", "llama", "qwen2", "phi3", "opt", "electra", "t5", "marian"):
        folders[name] = tmp_path_factory.mktemp(name)
        save(name, folders[name])
    return folders


def copy(folder: Path, to: Path, **changes: Any) -> Path:
    """The folder with keys of its config.json changed."""
    to.mkdir()
    for path in folder.iterdir():
        (to / path.name).write_bytes(path.read_bytes())
    config = json.loads((to / "config.json").read_text()) | changes
    (to / "config.json").write_text(json.dumps(config))
    return to


@pytest.mark.parametrize(
    ("name", "changes", "seen"),
    [
        ("bert_masked", {"position_embedding_type": "relative_key"}, "position_embedding_type"),
        ("bert_masked", {"hidden_act": "mish"}, "hidden_act = 'mish'"),
        ("bert_masked", {"is_decoder": True}, "is_decoder = True"),
        ("bert_masked", {"some_new_switch": 3}, "some_new_switch = 3"),
        ("bert_masked", {"auto_map": {"AutoModel": "m.M"}}, "auto_map"),
        ("bert_masked", {"quantization_config": {"bits": 4}}, "quantization_config"),
        ("bert_masked", {"model_type": "albert"}, "model_type = 'albert', which has one layer's"),
        ("bert_masked", {"model_type": "never-seen"}, "model_type = 'never-seen'"),
        ("bert_masked", {"model_type": ["bert"]}, "model_type = .'bert'."),
        (
            "llama",
            {"rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.5}},
            "rope_parameters.partial_rotary_factor = 0.5",
        ),
        ("bert_masked", {"num_hidden_layers": 3}, "encoder.layer.2"),
        ("bert_masked", {"hidden_size": 32}, "expected"),
        ("bert_masked", {"num_hidden_layers": 1_000_000}, "1,000,000, but"),
        ("bert_masked", {"num_hidden_layers": None}, "None"),
        ("bert_masked", {"pad_token_id": 1.5}, "pad_id"),
        ("t5", {"forced_bos_token_id": 10**9}, "forced_bos_token_id = 1000000000"),
        ("t5", {"num_beams": -2}, "beam must be at least 1"),
        ("bert_masked", {"num_attention_heads": "4"}, "'4'|4"),
        (
            "llama",
            {"rope_parameters": {"rope_type": "llama3", "rope_theta": 5.0, "factor": 8.0}},
            "rope_parameters.original_max_position_embeddings",
        ),
        (
            "llama",
            {
                "rope_parameters": {
                    "rope_type": "llama3",
                    "factor": 8.0,
                    "original_max_position_embeddings": 8,
                    "low_freq_factor": 4.0,
                    "high_freq_factor": 4.0,
                }
            },
            "beta_fast above beta_slow",
        ),
        (
            "llama",
            {"rope_parameters": None, "rope_scaling": {"type": "longrope", "factor": 2.0}},
            "rope_scaling.rope_type = 'longrope'",
        ),
        (
            "llama",
            {"rope_parameters": {"rope_type": "yarn", "factor": 2.0, "truncate": False}},
            "rope_parameters.truncate = False",
        ),
        ("llama", {"rope_parameters": "linear"}, "rope_parameters = 'linear'"),
        ("llama", {"num_key_value_heads": "2"}, "value of its kind"),
        ("llama", {"head_dim": [4]}, "value of its kind"),
        ("t5", {"num_beams": "four"}, "settings of generation"),
        (
            "qwen2",
            {"use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1},
            "max_window_layers = 1",
        ),
        (
            "phi3",
            {
                "max_position_embeddings": 48,
                "rope_parameters": {
                    "rope_type": "longrope",
                    "rope_theta": 1e4,
                    "short_factor": [1.0, 1.0],
                    "long_factor": [2.0, 4.0],
                },
            },
            "rope_parameters.rope_type = 'longrope'",
        ),
        ("phi3", {"partial_rotary_factor": 0.75}, "partial_rotary_factor = 0.75"),
        ("opt", {"word_embed_proj_dim": 8}, "word_embed_proj_dim = 8"),
        ("electra", {"embedding_size": 8}, "embedding_size = 8"),
        ("t5", {"feed_forward_proj": "gated-mish"}, "gated-mish"),
        ("marian", {"normalize_before": True}, "normalize_before = True"),
        ("marian", {"decoder_ffn_dim": 32}, "decoder_ffn_dim = 32"),
    ],
)
def test_by_name(
    saved: dict[str, Path], tmp_path: Path, name: str, changes: dict[str, Any], seen: str
) -> None:
    folder = copy(saved[name], tmp_path / "theirs", **changes)
    with pytest.raises(ModelError, match=seen):
        import_model(folder, tmp_path / "ours")
    assert [path.name for path in tmp_path.iterdir()] == ["theirs"]


def test_what_others_have_is_said_of_models_that_there_are() -> None:
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    from gnomon.interop.registry import ARCHITECTURES, MISSING, architecture_of

    assert set(ARCHITECTURES) | set(MISSING) <= set(CONFIG_MAPPING_NAMES)
    assert not MISSING.keys() & ARCHITECTURES.keys()
    for model_type, missing in MISSING.items():
        with pytest.raises(ModelError, match="these can be: bert") as told:
            architecture_of(model_type, "config.json")
        assert missing in str(told.value.seen)


def test_llama_as_its_publishers_spell_it() -> None:
    """Llama 3.1's own keys of before `rope_parameters`; the first Llama's padding of −1."""
    from gnomon.interop.keys import Keys
    from gnomon.interop.llama import read_llama

    theirs = {
        "hidden_size": 64,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "num_hidden_layers": 1,
        "intermediate_size": 96,
        "vocab_size": 100,
        "max_position_embeddings": 131072,
        "rms_norm_eps": 1e-05,
        "pad_token_id": -1,
        "rope_scaling": {
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
            "rope_type": "llama3",
        },
        "rope_theta": 500000.0,
        "mlp_bias": False,
        "attention_bias": False,
        "pretraining_tp": 1,
        "tie_word_embeddings": False,
    }
    keys = Keys(theirs, "config.json")
    config = read_llama(keys, set())
    keys.finish()
    assert config.problems() == []
    assert config.pad_id is None
    rope = config.position.rope
    assert (rope.scaling, rope.theta, rope.factor) == ("llama3", 500000.0, 8.0)
    assert (rope.original_length, rope.beta_slow, rope.beta_fast) == (8192, 1.0, 4.0)


def test_an_unknown_key_can_be_passed_over(saved: dict[str, Path], tmp_path: Path) -> None:
    folder = copy(saved["bert_masked"], tmp_path / "theirs", my_note="x")
    import_model(folder, tmp_path / "ours", ignore=["my_note"])
    export_model(tmp_path / "ours", tmp_path / "back")
    assert json.loads((tmp_path / "back" / "config.json").read_text())["my_note"] == "x"


def edit(folder: Path, change: Any) -> None:
    state = load_file(folder / "model.safetensors")
    change(state)
    save_file(state, folder / "model.safetensors", {"format": "pt"})


def test_a_tensor_without_a_place(saved: dict[str, Path], tmp_path: Path) -> None:
    folder = copy(saved["bert_masked"], tmp_path / "theirs")
    edit(folder, lambda state: state.update({"bert.adapter.weight": torch.ones(2)}))
    with pytest.raises(ModelError, match=r"bert\.adapter\.weight"):
        import_model(folder, tmp_path / "ours")


def test_a_tie_that_came_apart(saved: dict[str, Path], tmp_path: Path) -> None:
    folder = copy(saved["bert_masked"], tmp_path / "theirs")
    name = "cls.predictions.decoder.weight"
    edit(folder, lambda s: s.update({name: s["bert.embeddings.word_embeddings.weight"] + 1}))
    with pytest.raises(ModelError, match=name):
        import_model(folder, tmp_path / "ours")


def test_a_tie_that_is_stored_twice_comes_back_twice(
    saved: dict[str, Path], tmp_path: Path
) -> None:
    folder = copy(saved["bert_masked"], tmp_path / "theirs")
    name = "cls.predictions.decoder.weight"
    edit(folder, lambda s: s.update({name: s["bert.embeddings.word_embeddings.weight"].clone()}))
    import_model(folder, tmp_path / "ours")
    assert len(load_model(tmp_path / "ours").tables) == 1
    export_model(tmp_path / "ours", tmp_path / "back")
    back = load_file(tmp_path / "back" / "model.safetensors")
    assert torch.equal(back[name], load_file(folder / "model.safetensors")[name])


def test_shards_and_pickles_give_the_same_model(saved: dict[str, Path], tmp_path: Path) -> None:
    state = load_file(saved["llama"] / "model.safetensors")
    names = sorted(state)
    shards = copy(saved["llama"], tmp_path / "shards")
    (shards / "model.safetensors").unlink()
    for number, some in enumerate((names[::2], names[1::2])):
        save_file({name: state[name] for name in some}, shards / f"part{number}.safetensors")
    index = {name: f"part{place % 2}.safetensors" for place, name in enumerate(names)}
    (shards / "model.safetensors.index.json").write_text(json.dumps({"weight_map": index}))
    pickles = copy(saved["llama"], tmp_path / "pickles")
    (pickles / "model.safetensors").unlink()
    torch.save(state, pickles / "pytorch_model.bin")
    import_model(saved["llama"], tmp_path / "one")
    for other in (shards, pickles):
        import_model(other, tmp_path / f"ours-{other.name}")
        written = (tmp_path / f"ours-{other.name}" / "model.safetensors").read_bytes()
        assert written == (tmp_path / "one" / "model.safetensors").read_bytes()
    (shards / "part1.safetensors").unlink()
    with pytest.raises(ModelError, match="part1"):
        import_model(shards, tmp_path / "missing")


class Evil:
    def __reduce__(self) -> Any:
        return (print, ("code ran",))


def test_a_pickle_runs_no_code(
    saved: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = copy(saved["llama"], tmp_path / "theirs")
    (folder / "model.safetensors").unlink()
    torch.save({"model.norm.weight": Evil()}, folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match="weights and nothing else"):
        import_model(folder, tmp_path / "ours")
    assert "code ran" not in capsys.readouterr().out


@pytest.mark.parametrize("cut", [4, 40, 4000])
def test_a_damaged_file_of_weights(saved: dict[str, Path], tmp_path: Path, cut: int) -> None:
    content = (saved["llama"] / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(content[:cut])
    with pytest.raises(ModelError, match="cannot be read"):
        open_weights(tmp_path)


@pytest.mark.parametrize(
    "header",
    [b"3", b"[]", b'{"a": 1}', b"[" * 50_000, b'{"a": {"dtype": "F32", "shape": [-1, -1]}}'],
)
def test_a_header_of_another_kind(tmp_path: Path, header: bytes) -> None:
    content = len(header).to_bytes(8, "little") + header + bytes(4)
    (tmp_path / "model.safetensors").write_bytes(content)
    with pytest.raises(ModelError, match="cannot be read"):
        open_weights(tmp_path)


_POOLED = [{"type": "s.Transformer", "path": ""}, {"type": "s.Pooling", "path": "1_Pooling"}]
_SENTENCES = {
    "modules.json": json.dumps(_POOLED).encode(),
    "1_Pooling/config.json": b'{"pooling_mode_mean_tokens": true}',
}


@pytest.mark.parametrize(
    ("name", "files"),
    [
        ("bert_masked", {"config.json": b"[" * 100_000}),
        ("bert_masked", {"config.json": b"[]"}),
        ("bert_masked", {"tokenizer_config.json": b"[]"}),
        ("llama", {"chat_template.jinja": b"\xff"}),
        ("llama", {"generation_config.json": b"[1]"}),
        ("llama", {"generation_config.json": b'{"do_sample": true, "temperature": "hot"}'}),
        ("bert_masked", {**_SENTENCES, "1_Pooling/config.json": b"[]"}),
        ("bert_masked", {**_SENTENCES, "sentence_bert_config.json": b"[]"}),
        ("bert_masked", {**_SENTENCES, "sentence_bert_config.json": b'{"max_seq_length": "x"}'}),
        ("bert_masked", {**_SENTENCES, "config_sentence_transformers.json": b"[]"}),
        ("bert_masked", {"tokenizer.json": None, "vocab.txt": b"[PAD]\n\xe9\n"}),
        (
            "bert_masked",
            {
                "tokenizer.json": None,
                "vocab.txt": b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n",
                "tokenizer_config.json": b'{"strip_accents": "yes"}',
            },
        ),
        (
            "llama",
            {
                "model.safetensors": None,
                "model.safetensors.index.json": b'{"weight_map": {"a": 3}}',
            },
        ),
    ],
)
def test_files_of_another_kind(
    name: str, files: dict[str, bytes | None], saved: dict[str, Path], tmp_path: Path
) -> None:
    folder = copy(saved[name], tmp_path / "theirs")
    for file, content in files.items():
        if content is None:
            (folder / file).unlink()
            continue
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_bytes(content)
    with pytest.raises(ModelError):
        import_model(folder, tmp_path / "ours")
    assert not (tmp_path / "ours").exists()


def test_weights_in_whole_numbers_are_quantised(saved: dict[str, Path], tmp_path: Path) -> None:
    folder = copy(saved["bert_masked"], tmp_path / "theirs")
    tensors = load_file(folder / "model.safetensors")
    small = {name: tensor.to(torch.int8) for name, tensor in tensors.items()}
    save_file(small, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError, match=r"of type torch\.int8"):
        import_model(folder, tmp_path / "ours")


def test_folders_that_are_none(tmp_path: Path) -> None:
    for name in (
        str(tmp_path / "absent"),
        str(tmp_path),
        "pkg:no_such_package_here",
        "pkg:__main__",
        "pkg:",
    ):
        with pytest.raises(ModelError):
            import_model(name, tmp_path / "ours")


def test_a_model_of_ours_that_no_architecture_has(tmp_path: Path) -> None:
    save_model(Transformer(TransformerConfig(vocab_size=30, d_model=16)), tmp_path / "ours")
    with pytest.raises(ModelError, match=r"the nearest, marian, .*position\.layout"):
        export_model(tmp_path / "ours", tmp_path / "back")


def test_what_lies_between_two_architectures_is_refused(tmp_path: Path) -> None:
    # gpt2 has no sinusoids, llama a gate.
    family = {"family": "decoder", "norm.placement": "pre"}
    save_model(Transformer(changed(BASE, family)), tmp_path / "ours")
    with pytest.raises(ModelError, match=r"the nearest, .*, has not"):
        export_model(tmp_path / "ours", tmp_path / "back")


def test_an_export_is_compared_with_what_was_written(
    saved: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import_model(saved["llama"], tmp_path / "ours")
    read = SafetensorsFile.read

    def wrong(self: SafetensorsFile, name: str) -> torch.Tensor:
        tensor = read(self, name)
        return tensor + 1 if name == "model.norm.weight" else tensor

    monkeypatch.setattr(SafetensorsFile, "read", wrong)
    with pytest.raises(CheckError, match=r"model\.norm\.weight"):
        export_model(tmp_path / "ours", tmp_path / "back")
    assert not (tmp_path / "back").exists()


def test_what_was_changed_beyond_its_architecture_is_refused(
    saved: dict[str, Path], tmp_path: Path
) -> None:
    from gnomon import api

    import_model(saved["bert_masked"], tmp_path / "ours")
    api.extend(tmp_path / "ours", tmp_path / "rope", method="rope")
    with pytest.raises(ModelError, match=r"bert has not: model\.position\.kind = 'rope' \(there"):
        export_model(tmp_path / "rope", tmp_path / "back")
    assert not (tmp_path / "back").exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"pattern": "sliding_window", "window": 5, "num_global_tokens": 1},
        {"pattern": "dilated"},
        {"pattern": "block_sparse"},
    ],
    ids=lambda changes: changes["pattern"],
)
def test_sparse_attention_that_nobody_else_has_is_refused(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    config = llama_like(**changes)
    save_model(Transformer(config), tmp_path / "ours")
    key = "num_global_tokens" if changes["pattern"] == "sliding_window" else "pattern"
    with pytest.raises(ModelError, match=rf"has not: model\.attention\.{key} = "):
        export_model(tmp_path / "ours", tmp_path / "back")


def llama_like(**attention: Any) -> TransformerConfig:
    return changed(
        BASE,
        LLAMA
        | {"vocab_size": 40, "dropout": 0.1, "attention.dropout": 0.1}
        | {f"attention.{key}": value for key, value in attention.items()},
    )


def test_dropout_is_in_nobodys_way(saved: dict[str, Path], tmp_path: Path) -> None:
    """What a Llama has no key for is of training alone."""
    import transformers

    torch.manual_seed(1)
    model = Transformer(llama_like()).eval()
    save_model(model, tmp_path / "ours")
    (tmp_path / "ours" / "tokenizer.json").write_bytes(
        (saved["llama"] / "tokenizer.json").read_bytes()
    )
    (tmp_path / "ours" / "tokenizer.roles.json").write_text('{"bos": 2, "eos": 3}')
    assert export_model(tmp_path / "ours", tmp_path / "back").model_type == "llama"
    back = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "back").eval()
    ids = torch.randint(5, 40, (2, 9))
    with torch.no_grad():
        torch.testing.assert_close(back(ids).logits, model(ids), rtol=1e-4, atol=1e-4)
