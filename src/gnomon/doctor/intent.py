"""What the model is meant to be, and how that is known."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import torch

from gnomon.doctor.call import Call
from gnomon.doctor.inputs import config_of
from gnomon.doctor.patient import Family, Patient
from gnomon.probe import AttentionCall, Record

_CAUSAL = re.compile(r"(gpt|causal|decoder|languagemodel|lmhead|llama|autoregress)", re.IGNORECASE)
_BIDIRECTIONAL = re.compile(r"(bert|encoder|maskedlm|classif)", re.IGNORECASE)


@dataclass(frozen=True)
class Intent:
    """What the model is for.

    Attributes:
        causal: whether a position of the text it answers at must not see later ones; None: not
            known, and checks that depend on it are skipped.
        reason: how it is known: "declared", "its configuration says so" …
        observed: read off the attention of the model itself, faults and all: nothing else tells.
    """

    family: Family
    causal: bool | None
    reason: str
    observed: bool = False


def infer(patient: Patient, call: Call, record: Record) -> Intent:
    """Declared, else by configuration, by the loss, by what most layers do, by names."""
    family = _family(patient, call, record)
    if patient.causal is not None:
        return Intent(family, patient.causal, "declared")
    if patient.family is not None:
        return Intent(family, family != "encoder", f"the family {family} was declared")
    claim = _claim(call, config_of(patient))
    if claim is not None:
        return Intent(family, claim, "its configuration says so")
    if family == "encoder_decoder":
        return Intent(family, True, "it has a decoder with cross-attention")
    if _labels_are_inputs(call):
        return Intent("decoder", True, "its labels are its own inputs")
    if _labels_are_hidden(call):
        return Intent("encoder", False, "its labels ask for what its inputs hide")
    masked = causal_share(record)
    if masked is not None and masked > 0.5:
        return Intent("decoder", True, f"{masked:.0%} of its attention calls hide the future")
    name = type(patient.module).__name__
    if _CAUSAL.search(name) and not _BIDIRECTIONAL.search(name):
        return Intent("decoder", True, f"its class is called {name}")
    if masked == 0.0:
        return Intent(family, False, "no attention call hides the future", observed=True)
    if masked is None:
        return Intent(family, None, "no self-attention was seen")
    return Intent(family, None, "some of its attention calls hide the future, most do not")


def _family(patient: Patient, call: Call, record: Record) -> Family:
    if patient.family is not None:
        return patient.family
    config = config_of(patient)
    declared = getattr(config, "family", None)
    if declared in ("encoder", "decoder", "encoder_decoder"):
        return declared  # type: ignore[no-any-return]
    if "target" in call.streams:
        return "encoder_decoder"
    claim = patient.causal
    if claim is None:
        claim = _claim(call, config)
    if claim is None:
        claim = (causal_share(record) or 0.0) > 0.5
    return "decoder" if claim else "encoder"


def _claim(call: Call, config: Any) -> bool | None:
    """Whether a configuration (gnomon's or Hugging Face's) says that it is causal."""
    family = getattr(config, "family", None)
    if family in ("encoder", "decoder", "encoder_decoder"):
        return bool(family != "encoder")
    if not hasattr(config, "model_type"):
        return None
    if getattr(config, "is_encoder_decoder", False):
        return "target" in call.streams  # else its encoder alone
    if getattr(config, "is_decoder", False):
        return True
    if getattr(config, "attn_type", None) == "bi":  # XLNet: its order is an input
        return False
    return bool(config.model_type in _causal_types())


def _causal_types() -> frozenset[str]:
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as CAUSAL,
    )
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_MASKED_LM_MAPPING_NAMES as MASKED,
    )

    return frozenset(CAUSAL) - frozenset(MASKED)


def _labels_are_inputs(call: Call) -> bool:
    """Labels that are the ids themselves, as they stand or shifted by one: language modelling."""
    entry = next((each for each in call.entries if each.role == "labels" and each.times), None)
    if entry is None:
        return False
    text, labels = call.text("source"), call.values[entry.key]
    if text.shape != labels.shape:
        return False
    real = labels >= 0
    if not bool(real.any()):
        return False
    same = bool((labels == text)[real].all()) and bool(real.float().mean() > 0.3)
    shifted = real[:, :-1] & torch.ones_like(real[:, 1:])
    ahead = bool((labels[:, :-1] == text[:, 1:])[shifted].float().mean() > 0.9)
    return same or ahead


def _labels_are_hidden(call: Call) -> bool:
    """Labels at a few positions, of other tokens than the inputs: masked language modelling."""
    entry = next((each for each in call.entries if each.role == "labels" and each.times), None)
    if entry is None or call.read != "source":
        return False
    text, labels = call.text("source"), call.values[entry.key]
    if text.shape != labels.shape or text.is_floating_point():
        return False
    asked = (labels >= 0) & call.keep("source")
    if int(asked.sum()) < 3 or float(asked.sum() / call.keep("source").sum()) > 0.5:
        return False
    # BERT hides 90 % of what it asks for: some are left as they are.
    return float((labels != text)[asked].float().mean()) > 0.7


def causal_share(record: Record) -> float | None:
    """The share of self-attention calls in which no query sees a later key; None: no such calls."""
    calls = [each for each in record.attention if is_self_attention(each)]
    return sum(map(hides_future, calls)) / len(calls) if calls else None


def is_self_attention(call: AttentionCall) -> bool:
    """Whether queries and keys are of one text, of more than one token."""
    return (
        not call.is_cross
        and call.weights is not None
        and call.weights.size(-2) > 1
        and (call.weights.size(-1) == call.weights.size(-2))
    )


def hides_future(call: AttentionCall) -> bool:
    """Whether the weights above the diagonal are all zero."""
    weights = call.weights
    assert weights is not None, "asked of calls that are self-attention"
    later = torch.ones(weights.shape[-2:], dtype=torch.bool, device=weights.device).triu(1)
    return bool((weights[..., later] <= 1e-6).all())
