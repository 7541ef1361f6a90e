"""Where a foreign model lies: a folder, an installed Python package, a name on the hub."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

from gnomon.errors import ModelError

PACKAGE = "pkg:"
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?")
# What is asked of the hub: no code, no weights of other programs.
_WANTED = ("*.json", "*.txt", "*.model", "*.spm", "*.jinja", "*.safetensors")
_OLDER = ("pytorch_model*.bin",)


def find_folder(name: str) -> Path:
    """The folder with the config.json of the model that `name` stands for.

    Args:
        name: a folder; `pkg:PACKAGE` or `pkg:PACKAGE/FOLDER`, which is looked for among the
            installed packages and whose code is not run; or a name on the Hugging Face hub.

    Raises:
        ModelError: there is none, several, or the hub cannot be reached.
    """
    if name.startswith(PACKAGE):
        return _in_package(name.removeprefix(PACKAGE))
    path = Path(name)
    if path.exists():
        if not (path / "config.json").is_file():
            raise ModelError(
                "a Hugging Face folder holds a config.json",
                seen=f"{path} has none"
                + (", but an adapter" if (path / "adapter_config.json").is_file() else ""),
                mend="name the folder that save_pretrained wrote; merge adapters first",
            )
        return path
    if not _HUB_NAME.fullmatch(name):
        raise ModelError(
            "a model is a folder, pkg:PACKAGE or a name on the hub",
            seen=f"{name} (does not exist)",
        )
    return _from_hub(name)


def _in_package(name: str) -> Path:
    package, _, inner = name.partition("/")
    module = package.replace("-", "_")
    if not module.isidentifier():
        raise ModelError("a package is named as pkg:PACKAGE", seen=f"{PACKAGE}{name}")
    try:
        spec = find_spec(module)
    except ValueError:  # such as `__main__`, which is loaded and has none
        spec = None
    roots = list(spec.submodule_search_locations or ()) if spec is not None else []
    if not roots:
        raise ModelError(
            "the package must be installed",
            seen=f"{PACKAGE}{name}",
            mend=f"pip install --no-deps {package}",
        )
    root = Path(roots[0]) / inner
    found = sorted(
        path.parent
        for path in root.rglob("config.json")
        if any(path.parent.glob("*.safetensors")) or any(path.parent.glob("pytorch_model*.bin"))
    )
    if len(found) != 1:
        raise ModelError(
            "the package must hold one model",
            seen=f"{root}: "
            + (", ".join(str(path.relative_to(root)) for path in found) or "no model"),
            mend=f"name one of them: {PACKAGE}{package}/FOLDER" if found else None,
        )
    return found[0]


def _from_hub(name: str) -> Path:
    try:
        from huggingface_hub import HfApi, snapshot_download
    except ImportError as error:
        raise ModelError(
            "a model from the hub is loaded with the package huggingface_hub",
            seen=f"{name} is no folder here, and the package is not installed",
            mend="pip install 'gnomon[hub]', or name a folder",
        ) from error
    try:
        files = HfApi().list_repo_files(name)
        older = () if any(file.endswith(".safetensors") for file in files) else _OLDER
        return Path(snapshot_download(name, allow_patterns=[*_WANTED, *older]))
    except Exception as offline:  # whatever the network or the hub answers
        try:
            return Path(snapshot_download(name, local_files_only=True))
        except Exception:
            said = " ".join(str(offline).split())[:200]
            raise ModelError(
                "a model must be a folder here, or on the hub and within reach",
                seen=f"{name}: no such folder; the hub said: {type(offline).__name__}: {said}",
                mend="check the name and the network, or download the model and name its folder",
            ) from offline
