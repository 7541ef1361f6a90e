"""A virtual environment of its own for each peer, made once and kept."""

import json
import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path


class InstallationError(Exception):
    """A peer could not be installed; the message holds the end of the installer's output."""


def torch_requirement() -> str:
    """The torch that gnomon runs on here, so that everybody is measured on the same one."""
    return f"torch=={metadata.version('torch').split('+')[0]}"


def ensure_environment(folder: Path, requirements: list[str]) -> Path:
    """Make `folder` a virtual environment with `requirements`; give its `bin` folder.

    torch is named in the same command as the rest: an installer that is free to choose would
    fetch another build of it, gigabytes with a GPU's libraries. An environment that was made for
    the same requirements is used again.
    """
    binaries = folder / ("Scripts" if os.name == "nt" else "bin")
    receipt = folder / "requirements.json"
    wanted = [torch_requirement(), *requirements]
    if receipt.is_file() and json.loads(receipt.read_text(encoding="utf-8")) == wanted:
        return binaries
    print(f"Installing {', '.join(wanted)} into {folder} …", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    _run([sys.executable, "-m", "venv", str(folder)])
    _run([*_installer(binaries), *wanted])
    receipt.write_text(json.dumps(wanted), encoding="utf-8")
    return binaries


def _installer(binaries: Path) -> list[str]:
    """uv where there is one (seconds), else the environment's own pip (a minute)."""
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    if uv is None:
        return [str(binaries / "python"), "-m", "pip", "install", "-q"]
    links = os.environ.get("PIP_FIND_LINKS")  # uv does not read pip's settings
    python = str(binaries / "python")
    return [uv, "pip", "install", "-q", "-p", python, *(["--find-links", links] if links else [])]


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        tail = "\n".join((done.stdout + done.stderr).splitlines()[-15:])
        raise InstallationError(f"{' '.join(command)} failed:\n{tail}")
