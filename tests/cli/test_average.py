"""`gnomon average`, and trainings that end with an average: one command, then `--checkpoint`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from command_line import run_command as gnomon
from digits import write_digits
from gnomon import api
from gnomon.errors import GnomonError, ModelError, RunError

SMALL = [
    "model.d_model=32",
    "model.attention.num_heads=4",
    "model.feedforward.size=48",
    "tokenizer.vocab_size=280",
    "training.tokens_per_batch=400",
    "training.validate_every=3",
    "training.checkpoint_every=3",
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("average")
    data = write_digits(folder, num_pairs=120)
    settings = ["training.max_steps=12", "training.keep_last=3", "averaging.count=3"]
    settings += ["averaging.kind=last", "decoding.beam=1", "training.precision=fp32"]
    return api.train("tiny", data=data, overrides=[*SMALL, *settings], run=folder / "run").run


@pytest.fixture
def copy(run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(run, tmp_path / "run"))


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def assert_mean(folder: Path, members: list[Path]) -> None:
    for name, tensor in weights(folder).items():
        mean = torch.stack([weights(path)[name].double() for path in members]).mean(0)
        assert tensor.equal(mean.float()), name


def steps(run: Path, *numbers: int) -> list[Path]:
    return [run / f"checkpoints/step-{number:08d}" for number in numbers]


def test_a_damaged_checkpoint_does_not_get_into_an_average(copy: Path) -> None:
    damaged = steps(copy, 9)[0] / "model.safetensors"
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 0x40
    damaged.write_bytes(content)
    shutil.rmtree(copy / "checkpoints/averaged")
    with pytest.raises(ModelError, match="as they were written"):
        api.average([copy], last=2)
    assert not (copy / "checkpoints/averaged").exists()


def test_training_ends_with_an_average_that_loads_and_is_used_where_it_is_better(
    run: Path,
) -> None:
    averaged = run / "checkpoints/averaged"
    assert_mean(averaged, steps(run, 6, 9, 12))
    assert api.model_folder(run, "averaged") == averaged
    record = json.loads((averaged / "average.json").read_text())
    assert record["members"] == [path.name for path in steps(run, 6, 9, 12)]
    state = json.loads((run / "checkpoints/step-00000012/training.json").read_text())["state"]
    assert record["is_best"] == (record["metrics"]["nll"] < state["best"]["value"])
    expected = averaged if record["is_best"] else steps(run, state["best"]["step"])[0]
    assert api.model_folder(run) == expected
    assert api.load(run, checkpoint="averaged").translate(["12"])[0].text is not None
    assert "step-00000009" in (averaged / "README.md").read_text()


def test_the_better_of_best_and_average_is_evaluated_and_named(copy: Path, tmp_path: Path) -> None:
    record = copy / "checkpoints/averaged/average.json"
    for is_best, name in ((True, "averaged"), (False, "step-")):
        record.write_text(json.dumps(json.loads(record.read_text()) | {"is_best": is_best}))
        done = gnomon("evaluate", copy, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert f"checkpoints/{name}" in done.stderr.decode().replace("\n", "")


def test_the_newest_or_the_best_of_a_run(copy: Path, tmp_path: Path) -> None:
    done = gnomon("average", copy, "--last", "2", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode() == f"{copy}/checkpoints/averaged\n"
    assert_mean(copy / "checkpoints/averaged", steps(copy, 9, 12))
    # It was not validated: it is there by its name, and the best stays what it was.
    assert api.model_folder(copy).name.startswith("step-")

    values = {6: 1.0, 9: 3.0, 12: 2.0}
    lines = [{"kind": "validation", "step": s, "metrics": {"nll": v}} for s, v in values.items()]
    (copy / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    out = api.average([copy], best=2, output=tmp_path / "best")
    assert_mean(out, steps(copy, 6, 12))
    assert api.load(out).translate(["12"])


def test_models_of_one_network(copy: Path, tmp_path: Path) -> None:
    members = steps(copy, 6, 12)
    out = api.average(members, output=tmp_path / "two")
    assert_mean(out, members)
    assert not list(out.glob("training.*"))
    assert json.loads((out / "average.json").read_text())["members"] == [str(m) for m in members]


def _other_heads(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    config["model"]["attention"]["num_heads"] = 2
    (folder / "config.json").write_text(json.dumps(config))


def _other_vocabulary(folder: Path) -> None:
    path = folder / "tokenizer.json"
    path.write_text(path.read_text() + "\n")


@pytest.mark.parametrize(
    ("change", "rule"), [(_other_heads, "architecture"), (_other_vocabulary, "vocabulary")]
)
def test_models_that_only_look_alike_are_refused(copy, tmp_path, change, rule) -> None:
    change(steps(copy, 9)[0])
    with pytest.raises(ModelError, match=rule):
        api.average(steps(copy, 6, 9), output=tmp_path / "no")
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "--last 5 or --best 5"),
        ({"last": 2, "best": 2}, "both"),
        ({"last": 4}, "4 asked for, 3 in"),
        ({"last": 1}, "at least 2"),
    ],
)
def test_a_run_needs_a_sound_choice(run: Path, settings: dict[str, int], message: str) -> None:
    with pytest.raises(RunError, match=message):
        api.average([run], **settings)


def test_mistakes_with_several_models(run: Path, tmp_path: Path) -> None:
    one, two = steps(run, 6, 9)
    with pytest.raises(ModelError, match="--output"):
        api.average([one, two])
    with pytest.raises(ModelError, match="written over"):
        api.average([one, two], output=tmp_path)
    with pytest.raises(ModelError, match="--last"):
        api.average([one, two], last=2, output=tmp_path / "a")
    with pytest.raises(GnomonError, match="at least 2"):
        api.average([one], output=tmp_path / "a")
    done = gnomon("average", tmp_path / "nowhere", run, "-o", tmp_path / "a", cwd=tmp_path)
    assert done.returncode == 2
    assert b"does not exist" in done.stderr
    assert b"Traceback" not in done.stderr
