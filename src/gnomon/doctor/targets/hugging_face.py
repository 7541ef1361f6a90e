"""A Hugging Face folder: the model of its `architectures`, its tokenizer, its own files only."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gnomon.doctor.patient import Patient
from gnomon.doctor.targets.target import Options, Target
from gnomon.errors import DoctorError, in_one_line
from gnomon.training import choose_device

_TOKENIZER_FILES = (
    "tokenizer.json", "tokenizer_config.json", "vocab.txt", "vocab.json", "spiece.model",
    "source.spm", "sentencepiece.bpe.model", "tokenizer.model",
)  # fmt: skip
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")


def open_hugging_face(folder: Path, config: Mapping[str, Any], options: Options) -> Target:
    """The model and tokenizer in `folder`; nothing is downloaded.

    Args:
        config: the content of its config.json.

    Raises:
        DoctorError: it cannot be loaded, or it brings its own code and `options.trust` is off.
    """
    try:
        import transformers
    except ImportError as error:
        raise DoctorError(
            "a Hugging Face model is examined with the package transformers",
            seen="it is not installed",
            mend="pip install 'transformers>=5'",
        ) from error
    own_code = _own_code(config)
    if own_code and not options.trust and not _is_known(config):
        raise DoctorError(
            "code that lies beside a model is not run unless it is asked for",
            seen=f"{folder} needs {', '.join(own_code)}",
            mend="read that code, then say --trust; or build the model in your own "
            "file.py:function",
        )
    if "model_type" not in config and not (own_code and options.trust):
        raise DoctorError(
            "a Hugging Face model names its kind",
            seen=f"{folder / 'config.json'} has no model_type",
            mend="name a folder that save_pretrained wrote",
        )
    if not any(path for pattern in _WEIGHTS for path in folder.glob(pattern)):
        raise DoctorError(
            "a model folder holds weights",
            seen=f"{folder} has no .safetensors and no pytorch_model.bin",
            mend="save the model there again with save_pretrained",
        )
    device = choose_device(options.device)
    trusted = options.trust and bool(own_code)

    def load() -> Any:
        return _loaded(transformers, folder, config, trusted).to(device)

    module = load()
    notes: list[str] = []
    tokenizer = _tokenizer(transformers, folder, trusted, notes)
    ran = "; that ran the code beside it" if trusted else ""
    return Target(
        name=str(folder),
        kind="hugging face",
        what=f"{type(module).__name__} ({config.get('model_type', 'own kind')}) of "
        f"{sum(p.numel() for p in module.parameters()):,} parameters from {folder}{ran}",
        patient=Patient(
            module=module,
            tokenizer=tokenizer,
            reload=load,
            folder=folder,
            trusted=trusted,
        ),
        notes=tuple(notes),
    )


def _own_code(config: Mapping[str, Any]) -> list[str]:
    """The classes that the folder's own code defines, "modeling_x.XModel"."""
    found = config.get("auto_map")
    return [str(each) for each in found.values()] if isinstance(found, Mapping) else []


def _is_known(config: Mapping[str, Any]) -> bool:
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    return config.get("model_type") in CONFIG_MAPPING_NAMES


def _loaded(transformers: Any, folder: Path, config: Mapping[str, Any], trusted: bool) -> Any:
    logging = transformers.utils.logging
    names = config.get("architectures") or []
    known = getattr(transformers, str(names[0]), None) if names else None
    load_class = known if known is not None and not trusted else _auto(transformers, config)
    level = logging.get_verbosity()
    bars = logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        return load_class.from_pretrained(
            folder, local_files_only=True, trust_remote_code=trusted
        ).eval()
    except Exception as error:  # transformers raises whatever it meets
        raise DoctorError(
            "the model must load from its folder",
            seen=f"{folder}: {in_one_line(error)}",
            mend="check that config.json and the weights are of one model; its kind may need "
            "another version of transformers",
        ) from error
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


def _auto(transformers: Any, config: Mapping[str, Any]) -> Any:
    """The auto class that the folder's own code registers, else the plain one."""
    for name in config.get("auto_map") or {}:
        if name.startswith("AutoModel") and hasattr(transformers, name):
            return getattr(transformers, name)
    return transformers.AutoModel


def _tokenizer(transformers: Any, folder: Path, trusted: bool, notes: list[str]) -> Any:
    if not any((folder / name).is_file() for name in _TOKENIZER_FILES):
        notes.append("no tokenizer lies in the folder: what needs one is skipped")
        return None
    try:
        return transformers.AutoTokenizer.from_pretrained(
            folder, local_files_only=True, trust_remote_code=trusted
        )
    except Exception as error:  # transformers raises whatever it meets
        notes.append(f"its tokenizer cannot be loaded ({in_one_line(error)})")
        return None
