"""What a user names becomes the patient that is meant; everything else is refused with a mend."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from digits import TrainedRun
from gnomon import api
from gnomon.doctor.case import Case
from gnomon.doctor.targets import Options, Target, open_target
from gnomon.doctor.targets.training import training_fields
from gnomon.doctor.targets.vocabulary import with_end
from gnomon.errors import DoctorError, GnomonError, ModelError
from gnomon.model import Transformer
from gnomon.tasks.likelihood import predict
from gnomon.training import Objective, ObjectiveConfig, RunFolder
from gnomon.training.optimizers import Optimizer


def opened(named: str | Path | None, **options: object) -> Target:
    return open_target(named, Options(**options))  # type: ignore[arg-type]


def test_a_run_brings_all_of_its_training(trained_run: TrainedRun) -> None:
    found = opened(trained_run.path, checkpoint="step-40")
    patient = found.patient
    assert found.kind == "run"
    assert patient.module is not None and patient.recipe.name == "digits"
    assert patient.planned_steps == 40 and patient.clip_norm == patient.recipe.optimizer.clip_norm
    assert patient.batch["ids"].dtype == torch.int64
    assert patient.texts and set("".join(patient.texts)) <= set("0123456789 ")
    # the batch is the corpus's own text by the model's own vocabulary
    row = [int(i) for i in patient.batch["ids"][0] if int(i) != patient.pad_id]
    assert patient.tokenizer.decode(row) in trained_run.sources
    assert patient.tokenizer.encode(patient.tokenizer.decode(row)) == row
    # the optimizer is as the training left it
    names = {id(p): name for name, p in patient.module.named_parameters()}
    saved = load_file(RunFolder(trained_run.path).checkpoints.path(40) / "training.safetensors")
    states = patient.optimizer.state
    assert len(states) == len(names)
    for parameter, state in states.items():
        assert torch.equal(state["exp_avg"], saved[f"exp_avg/{names[id(parameter)]}"])
    assert patient.schedule(39) == pytest.approx(patient.recipe.schedule.build(
        d_model=patient.module.config.d_model, max_steps=40)(40))  # fmt: skip
    again, weights = patient.reload().state_dict(), patient.module.state_dict()
    assert again.keys() == weights.keys()
    assert all(torch.equal(again[name], weights[name]) for name in weights)


def test_the_loss_of_a_run_is_that_of_its_training(trained_run: TrainedRun) -> None:
    """Smoothing apart, the mean over the target's tokens, end of sentence included."""
    patient = opened(trained_run.path).patient
    translator = api.load(trained_run.path)
    texts = [patient.tokenizer.decode(row) for row in patient.batch["ids"].tolist()]
    targets = [patient.tokenizer.decode(row) for row in patient.batch["target"].tolist()]
    scored = translator.score(texts, targets)
    nll = -sum(each.log_prob or 0.0 for each in scored) / sum(each.num_tokens for each in scored)
    recipe = replace(patient.recipe, objective=ObjectiveConfig(label_smoothing=0.0))
    plain = training_fields(patient.module, recipe)["loss"]
    with torch.no_grad():
        assert float(plain(patient.module, patient.batch)) == pytest.approx(nll, rel=1e-4)
        smoothed = float(patient.loss(patient.module, patient.batch))
    assert smoothed != pytest.approx(nll, rel=1e-3)


def test_decoding_of_a_run_is_what_it_translates(trained_run: TrainedRun) -> None:
    patient = opened(trained_run.path).patient
    translator = api.load(trained_run.path)
    texts = [patient.tokenizer.decode(row) for row in patient.batch["ids"].tolist()]
    for beams in (1, 3):
        tokens = (
            patient.generate(patient.module, patient.batch, 60)
            if beams == 1
            else patient.beam_generate(patient.module, patient.batch, 60, beams)
        )
        expected = translator.translate(
            texts, beam=beams, length_penalty="none", max_length_factor=0.0, max_length_offset=60
        )
        assert [patient.tokenizer.decode(row) for row in tokens.tolist()] == [
            each.text for each in expected
        ]


def test_a_step_is_the_loop_s_own(trained_run: TrainedRun) -> None:
    """One step from a fresh model: the same weights as the trainer's, but for rounding."""
    patient = opened(trained_run.path).patient
    models = []
    for _ in range(2):
        torch.manual_seed(0)
        models.append(Transformer(patient.module.config).eval())  # type: ignore[union-attr]
    batch = dict(patient.batch)
    halves = [{name: value[part] for name, value in batch.items()}
              for part in (slice(0, 1), slice(1, None))]  # fmt: skip
    fields = training_fields(models[0], patient.recipe)
    fields["step"](halves)
    objective = Objective(patient.recipe.objective, pad_id=0)
    optimizer = Optimizer(models[1], patient.recipe.optimizer)
    sums = objective(with_end(batch["target"]), partial(predict, models[1], batch["ids"]))
    (sums.loss / sums.num_tokens).backward()
    optimizer.clip(float(optimizer.gradient_norm()))
    optimizer.step(fields["optimizer"].param_groups[0]["lr"])
    for ours, theirs in zip(models[0].parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-7)


def test_a_model_folder_without_its_run(trained_run: TrainedRun, tmp_path: Path) -> None:
    shutil.copytree(RunFolder(trained_run.path).best(), tmp_path / "shipped")
    found = opened(tmp_path / "shipped")
    assert found.kind == "model" and found.patient.recipe is None
    assert found.patient.optimizer is None and found.patient.generate is not None


def test_damaged_weights_are_told(trained_run: TrainedRun, tmp_path: Path) -> None:
    shutil.copytree(trained_run.path, tmp_path / "run")
    file = RunFolder(tmp_path / "run").best() / "model.safetensors"
    content = bytearray(file.read_bytes())
    content[-1] ^= 1
    file.write_bytes(content)
    with pytest.raises(ModelError, match="damaged"):
        opened(tmp_path / "run")


@pytest.mark.parametrize("name", ["tiny", "modern"])
def test_a_preset_is_built_with_its_optimizer(name: str) -> None:
    found = opened(name)
    patient = found.patient
    assert found.kind == "recipe" and patient.module is not None
    in_groups = [p for group in patient.optimizer.param_groups for p in group["params"]]
    assert {id(p) for p in in_groups} == {id(p) for p in patient.module.parameters()}
    assert patient.module.config.vocab_size == patient.recipe.tokenizer.vocab_size
    assert any("made up" in note for note in found.notes)
    assert torch.isfinite(Case(patient).loss(Case(patient).call))


def test_what_the_user_states_wins(trained_run: TrainedRun) -> None:
    patient = opened(trained_run.path, declared={"pad_id": 3, "precision": "fp16"}).patient
    assert (patient.pad_id, patient.precision) == (3, "fp16")


def hugging_face_folder(folder: Path, **config: object) -> Path:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 2, "vocab_size": 60, "n_positions": 32}
    model = transformers.GPT2LMHeadModel(
        transformers.GPT2Config(bos_token_id=1, eos_token_id=2, **sizes)
    )
    model.save_pretrained(folder)
    written = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(written | config))
    return folder


def test_a_hugging_face_folder(tmp_path: Path) -> None:
    found = opened(hugging_face_folder(tmp_path))
    assert type(found.patient.module).__name__ == "GPT2LMHeadModel"
    assert any("tokenizer" in note for note in found.notes)
    assert Case(found.patient).intent.causal


def test_pickled_weights_are_read_without_running_what_they_hold(tmp_path: Path) -> None:
    folder = hugging_face_folder(tmp_path)
    weights = load_file(folder / "model.safetensors")
    torch.save(weights, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    assert opened(folder).patient.module is not None

    class Evil:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (Path.touch, (tmp_path / "ran",))  # type: ignore[return-value]

    torch.save({**weights, "evil": Evil()}, folder / "pytorch_model.bin")
    with pytest.raises(DoctorError, match="must load"):
        opened(folder)
    assert not (tmp_path / "ran").exists()


def test_remote_code_is_not_run_unless_asked_for(tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    folder = hugging_face_folder(
        tmp_path / "model",
        model_type="own_kind",
        architectures=["OwnModel"],
        auto_map={"AutoConfig": "own.OwnConfig", "AutoModelForCausalLM": "own.OwnModel"},
    )
    (folder / "own.py").write_text(
        f"open({str(marker)!r}, 'w').close()\n"
        "from transformers import GPT2Config, GPT2LMHeadModel\n"
        "class OwnConfig(GPT2Config):\n    model_type = 'own_kind'\n"
        "class OwnModel(GPT2LMHeadModel):\n    config_class = OwnConfig\n"
    )
    with pytest.raises(DoctorError, match="not run unless"):
        opened(folder)
    assert not marker.exists()
    found = opened(folder, trust=True)
    assert marker.exists()
    assert type(found.patient.module).__name__ == "OwnModel"
    assert "ran the code" in found.what


CODE = """
import torch
from torch import nn

def model():
    return nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)

def pair():
    return model(), (torch.zeros(2, 3, 16),)

def fields():
    return {"module": model(), "pad_id": 7}

def wrong_field():
    return {"modul": model()}

def number():
    return 3

def broken():
    return 1 / 0
"""


def test_a_function_of_the_user(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(CODE)
    for function in ("model", "pair", "fields"):
        found = opened(f"{file}:{function}")
        assert isinstance(found.patient.module, nn.TransformerEncoderLayer)
        assert "ran the file's code" in found.what
    assert opened(f"{file}:pair").patient.batch[0].shape == (2, 3, 16)
    assert opened(f"{file}:fields").patient.pad_id == 7


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("{file}:wrong_field", "modul"),
        ("{file}:number", "returns a int"),
        ("{file}:broken", "line 21, in broken.*ZeroDivisionError"),
        ("{file}:nothing", "no function nothing"),
        ("{file}:", "none named"),
        ("{file}", "a function is named"),
        ("{folder}/none.py:f", "must exist"),
        ("{folder}/syntax.py:f", "SyntaxError"),
        ("{folder}/weights.safetensors", "does not say which model"),
        ("{folder}/empty", "a run, a model or text"),
        ("{folder}/none", "no such file"),
        ("{folder}/json", "readable JSON"),
        ("{folder}/kind", "names its kind"),
        ("{folder}/bundle", "bundle"),
        ("{folder}/three", "two files"),
        ("{folder}/columns.tsv", "one TAB"),
    ],
)
def test_mistakes_are_told_with_a_mend(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "mine.py").write_text(CODE)
    (tmp_path / "syntax.py").write_text("def f(:\n")
    (tmp_path / "weights.safetensors").write_bytes(b"")
    (tmp_path / "columns.tsv").write_text("1\ta\tb\n")
    for folder in ("empty", "json", "kind", "bundle", "three"):
        (tmp_path / folder).mkdir()
    (tmp_path / "json" / "config.json").write_text("{")
    (tmp_path / "kind" / "config.json").write_text("{}")
    (tmp_path / "bundle" / "bundle.json").write_text("{}")
    for side in ("en", "de", "fr"):
        (tmp_path / "three" / f"train.{side}").write_text("a\n")
    with pytest.raises(GnomonError, match=message) as caught:
        opened(name.format(file=tmp_path / "mine.py", folder=tmp_path))
    assert caught.value.exit_code == 2


def test_text_by_options_and_by_folder(tmp_path: Path) -> None:
    for name in ("train.en", "train.de", "valid.en", "valid.de"):
        (tmp_path / name).write_text("one\ntwo\n")
    (tmp_path / "test.tsv").write_text("one\teins\n")
    corpus = opened(tmp_path).patient.corpus
    assert corpus is not None
    assert {key: path.name for key, path in corpus.items()} == {
        "source": "train.de", "target": "train.en", "valid_source": "valid.de",
        "valid_target": "valid.en", "test_pairs": "test.tsv",
    }  # fmt: skip
    source, target = tmp_path / "train.en", tmp_path / "train.de"
    assert opened(None, source=source, target=target).patient.corpus == {
        "source": source, "target": target
    }  # fmt: skip
    beside = opened("tiny", source=source, target=target).patient
    assert beside.module is not None and beside.corpus is not None
    for wrong in ({"source": source}, {}, {"source": source, "target": target, "data": source}):
        with pytest.raises(DoctorError):
            opened(None, **wrong)
    with pytest.raises(GnomonError):
        opened(None, source=tmp_path / "none", target=target)
