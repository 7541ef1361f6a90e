"""gnomon: train, check, ship and explain Transformers on your own text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gnomon.api import evaluate, extend, load, train
    from gnomon.doctor import Patient, Report, diagnose
    from gnomon.doctor.monitors import watch
    from gnomon.errors import GnomonError
    from gnomon.tasks import Terminology, Translation, Translator

__version__ = "0.1.0"

# Where each public name lives. Nothing is imported before it is used, so `import gnomon` is
# instant although torch is not.
_HOMES = {
    "GnomonError": "gnomon.errors",
    "Patient": "gnomon.doctor",
    "Report": "gnomon.doctor",
    "Encoder": "gnomon.tasks",
    "Terminology": "gnomon.tasks",
    "Translation": "gnomon.tasks",
    "Translator": "gnomon.tasks",
    "diagnose": "gnomon.doctor",
    "evaluate": "gnomon.api",
    "export_model": "gnomon.api",
    "import_model": "gnomon.api",
    "extend": "gnomon.api",
    "load": "gnomon.api",
    "train": "gnomon.api",
    "watch": "gnomon.doctor.monitors",
}

__all__ = [
    "Encoder",
    "GnomonError",
    "Patient",
    "Report",
    "Terminology",
    "Translation",
    "Translator",
    "__version__",
    "diagnose",
    "evaluate",
    "export_model",
    "extend",
    "import_model",
    "load",
    "train",
    "watch",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
