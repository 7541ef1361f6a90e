"""Says what a target is by what lies there, and opens it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gnomon.doctor.targets.target import Options, Target
from gnomon.errors import DoctorError

_WEIGHTS = {".safetensors", ".bin", ".pt", ".pth", ".ckpt"}
_FORMS = (
    "name a run, a model folder, a checkpoint, a preset or recipe.toml, a Hugging Face folder, "
    "a folder of text files, a crash bundle (RUN/bundles/step-N) or file.py:function; or give "
    "--src and --tgt"
)


def open_target(target: str | Path | None, options: Options) -> Target:
    """The patient that `target` stands for.

    Args:
        target: a run, a model folder or checkpoint (gnomon's or Hugging Face's), a recipe (preset
            or TOML), a folder or file of text, `file.py:function`, a crash bundle; None where only
            text is given.

    Raises:
        DoctorError: nothing there that can be examined.
        GnomonError: what is there cannot be read.
    """
    from gnomon.training import choose_device

    choose_device(options.device)
    for name, path in options.corpus.items():
        if not path.exists():
            raise DoctorError("text that is named must be there", seen=f"{name}: {path}")
    if options.code is not None and not (target and (Path(target) / "bundle.json").is_file()):
        raise DoctorError(
            "--code names the code of the model in a crash bundle",
            seen=f"--code {options.code} beside {target or 'no target'}, which is no bundle",
            mend=f"name it as the target: gnomon doctor {options.code}",
        )
    if target is None:
        from gnomon.doctor.targets.corpus import given_corpus

        return given_corpus(options).declared(options)
    return _open(str(target), options).declared(options)


def _open(name: str, options: Options) -> Target:
    file, colon, function = name.rpartition(":")
    if colon and file.endswith(".py"):
        from gnomon.doctor.targets.code import open_code

        return open_code(Path(file), function)
    path = Path(name)
    if path.is_dir():
        return _open_folder(path, options)
    if path.suffix == ".toml":
        from gnomon.doctor.targets.recipe import open_recipe

        return open_recipe(name, options)
    if path.is_file():
        return _open_file(path, options)
    from gnomon.recipes import preset_names

    if name in preset_names():
        from gnomon.doctor.targets.recipe import open_recipe

        return open_recipe(name, options)
    raise DoctorError(
        "the doctor examines what is there",
        seen=f"{name}: no such file, folder or preset",
        mend=_FORMS,
    )


def _open_folder(folder: Path, options: Options) -> Target:
    from gnomon.training import RunFolder

    if (folder / "bundle.json").is_file():
        from gnomon.doctor.targets.bundle import open_bundle

        return open_bundle(folder, options)
    if (folder / "config.json").is_file():
        config = _read(folder / "config.json")
        if "format_version" in config and "model" in config:
            from gnomon.doctor.targets.model import open_model

            return open_model(folder, options)
        from gnomon.doctor.targets.hugging_face import open_hugging_face

        return open_hugging_face(folder, config, options)
    if RunFolder(folder).exists():
        from gnomon.doctor.targets.model import open_run

        return open_run(folder, options)
    from gnomon.doctor.targets.corpus import open_text_folder

    found = open_text_folder(folder)
    if found is not None:
        return found
    raise DoctorError(
        "a folder that is examined is a run, a model or text",
        seen=f"{folder} has no recipe.toml, no config.json, and no pair of text files such as "
        "train.en and train.de",
        mend=_FORMS,
    )


def _open_file(path: Path, options: Options) -> Target:
    if path.suffix == ".py":
        raise DoctorError(
            "of a Python file a function is named that returns the model",
            seen=path,
            mend=f"for example {path}:patient; it may also return (model, batch), or a dictionary "
            "with the fields of gnomon.Patient",
        )
    if path.suffix in _WEIGHTS:
        raise DoctorError(
            "a file of weights does not say which model they belong to",
            seen=path,
            mend="name the folder with its config.json, or file.py:function where the function "
            "builds the model and loads them",
        )
    from gnomon.doctor.targets.corpus import open_pair_file

    return open_pair_file(path)


def _read(path: Path) -> dict[str, Any]:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DoctorError(
            "a model's config.json must be readable JSON", seen=f"{path}: {error}"
        ) from error
    if not isinstance(config, dict):
        raise DoctorError(
            "a model's config.json must hold one object",
            seen=f"{path}: a {type(config).__name__}",
        )
    return config
