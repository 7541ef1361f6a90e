"""Rotary positions in a config.json: `rope_parameters`, or `rope_theta` and `rope_scaling`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gnomon.interop.keys import Keys
from gnomon.model import RopeConfig

_KINDS = {
    "default": "none",
    "linear": "linear",
    "dynamic": "dynamic_ntk",
    "yarn": "yarn",
    "llama3": "llama3",
}
_BACK = {ours: theirs for theirs, ours in _KINDS.items()}
# What else each kind may be given, and what we call it.
_MORE = {
    "factor": "factor",
    "original_max_position_embeddings": "original_length",
    "beta_fast": "beta_fast",
    "beta_slow": "beta_slow",
    "attention_factor": "attention_factor",
    "high_freq_factor": "beta_fast",
    "low_freq_factor": "beta_slow",
}
_READ = {
    "default": (),
    "linear": ("factor",),
    "dynamic": ("factor", "original_max_position_embeddings"),
    "yarn": (
        *("factor", "original_max_position_embeddings"),
        *("beta_fast", "beta_slow", "attention_factor"),
    ),
    "llama3": (
        *("factor", "original_max_position_embeddings"),
        *("high_freq_factor", "low_freq_factor"),
    ),
}


def read_rope(keys: Keys, max_length: int) -> RopeConfig:
    """Frequencies and their stretching.

    Args:
        max_length: `max_position_embeddings`: the trained length where none is named.

    Raises:
        ModelError: a kind of stretching that gnomon does not have (longrope, …), or a
            number beside it that it does not know.
    """
    name = "rope_parameters" if keys.get("rope_parameters", None) else "rope_scaling"
    keys.silent("rope_parameters", "rope_scaling")
    found_there = keys.get(name, None) or {}
    if not isinstance(found_there, Mapping):
        raise keys.refused(name, found_there, "rotary positions are a table, or null")
    given = dict(found_there)
    theta = given.pop("rope_theta", None) or keys.get("rope_theta", None) or 10_000.0
    keys.silent("rope_theta")
    if (share := given.pop("partial_rotary_factor", 1.0)) != 1.0:
        raise keys.refused(f"{name}.partial_rotary_factor", share, "all of a head is turned here")
    kinds = {given.pop(key) for key in ("rope_type", "type") if key in given} or {"default"}
    kind = kinds.pop()
    if kinds or kind not in _KINDS:
        raise keys.refused(
            f"{name}.rope_type", kind, f"kinds that can be taken in: {', '.join(_KINDS)}"
        )
    more = {key: value for key, value in given.items() if value is not None}
    if unknown := sorted(more.keys() - set(_READ[kind])):
        key = unknown[0]
        raise keys.refused(f"{name}.{key}", more[key], f"with {kind} it has no meaning here")
    if kind == "llama3" and (missing := [key for key in _READ[kind] if key not in more]):
        raise keys.refused(f"{name}.{missing[0]}", None, "llama3 has no defaults: name the number")
    found = {_MORE[key]: value for key, value in more.items()}
    if kind in ("dynamic", "yarn"):
        found.setdefault("original_length", max_length)
    return RopeConfig(theta=float(theta), scaling=_KINDS[kind], **found)  # type: ignore[arg-type]


def write_rope(rope: RopeConfig) -> dict[str, Any]:
    """`rope_parameters`, and what older programs read instead."""
    theirs = _BACK.get(rope.scaling)
    written: dict[str, Any] = {"rope_type": theirs, "rope_theta": rope.theta}
    for key in _READ.get(theirs or "", ()):
        value = getattr(rope, _MORE[key])
        if value is not None:
            written[key] = value
    older = {key: value for key, value in written.items() if key != "rope_theta"}
    return {
        "rope_parameters": written,
        "rope_theta": rope.theta,
        "rope_scaling": None if theirs == "default" else older,
    }
