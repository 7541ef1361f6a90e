"""A batch for a model that came without one: three texts of different length, padded."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from gnomon.doctor.call import Key
from gnomon.doctor.finding import Skip
from gnomon.doctor.inputs import config_of, is_batch_first, known_pad_id, special_ids, vocabulary
from gnomon.doctor.patient import Patient

LENGTHS = {"source": (12, 9, 6), "target": (10, 10, 7)}
_IDS = ("input_ids", "ids", "idx", "tokens", "src", "source", "x", "inputs")
_TARGETS = ("decoder_input_ids", "target", "tgt", "trg", "y", "target_ids", "tgt_ids")


def make_inputs(patient: Patient) -> dict[Key, Any]:
    """Inputs with which the model runs.

    Raises:
        Skip: none of the usual forms fits; its reason says what was tried and how to hand one over.
    """
    assert patient.module is not None
    tried: list[str] = []
    for values in _candidates(patient):
        try:
            with torch.no_grad():
                patient.module(**values)
        except Exception as error:  # the user's code may raise anything
            shapes = ", ".join(f"{k} {tuple(v.shape)}" for k, v in values.items())
            tried.append(f"{shapes}: {type(error).__name__}")
            continue
        return {str(key): value for key, value in values.items()}
    raise Skip(
        "no batch was given and none of the usual forms fits "
        f"({'; '.join(tried[:4]) or 'its forward names no ids'}): hand one over with batch="
    )


def _candidates(patient: Patient) -> Iterator[dict[str, Tensor]]:
    module = patient.module
    assert module is not None
    parameters = inspect.signature(module.forward).parameters
    required = [
        name
        for name, each in parameters.items()
        if each.default is inspect.Parameter.empty
        and each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL)
    ]
    yield from _torch_modules(module)
    ids = next((name for name in _IDS if name in parameters), None)
    target = next((name for name in _TARGETS if name in parameters), None)
    two = getattr(config_of(patient), "is_encoder_decoder", None)
    family = patient.family or getattr(config_of(patient), "family", None)
    if family is not None:
        two = family == "encoder_decoder"
    if ids is None:
        if not required:
            return
        ids = required[0]
    values = {ids: _ids(patient, "source")}
    with_mask = _with_mask(values, ids, patient, parameters)
    device = _device(module)
    if target is not None and two is not False:
        both = with_mask | {target: _ids(patient, "target")}
        mask = "decoder_attention_mask"
        if mask in parameters:
            both[mask] = _keep("target", device)
        yield both
        yield values | {target: both[target]}
    if target not in required:
        yield with_mask
        yield values
    others = [name for name in required if name not in (ids, target)]
    if len(others) == 1 and target is None:
        yield values | {others[0]: _keep("source", device)}


def _with_mask(
    values: dict[str, Tensor], ids: str, patient: Patient, parameters: Any
) -> dict[str, Tensor]:
    """The mask of padding beside the ids, where the model takes one."""
    for name in ("attention_mask", "keep"):
        if name in parameters:
            keep = _keep("source", _device(patient.module))
            return values | {name: keep.long() if name == "attention_mask" else keep}
    if known_pad_id(patient) is None:
        return {ids: values[ids]}
    return values


def _ids(patient: Patient, stream: str) -> Tensor:
    lengths = LENGTHS[stream]
    size = vocabulary(patient, "source" if stream == "source" else "target") or 16
    special, pad_id = special_ids(patient), known_pad_id(patient)
    generator = torch.Generator().manual_seed(len(stream))
    low = 0 if size < 20 else min(10, size // 10)
    ids = torch.randint(low, size, (len(lengths), max(lengths)), generator=generator)
    for _ in range(20):
        wrong = torch.isin(ids, torch.tensor(sorted(special) or [-1]))
        ids = torch.where(wrong, torch.randint(low, size, ids.shape, generator=generator), ids)
    if pad_id is not None and pad_id < size:
        ids = ids.masked_fill(~_keep(stream), pad_id)
    return ids.to(_device(patient.module))


def _keep(stream: str, device: torch.device | None = None) -> Tensor:
    lengths = torch.tensor(LENGTHS[stream], device=device)
    return torch.arange(max(LENGTHS[stream]), device=device)[None] < lengths[:, None]


def _device(module: nn.Module | None) -> torch.device:
    first = next(module.parameters(), None) if module is not None else None
    return first.device if first is not None else torch.device("cpu")


def _torch_modules(module: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Inputs for PyTorch's own building blocks, which read vectors."""
    sizes = [each.embed_dim for each in module.modules() if isinstance(each, nn.MultiheadAttention)]
    if not sizes or any(isinstance(each, nn.Embedding) for each in module.modules()):
        return
    first, device = is_batch_first(module), _device(module)
    source, target = (_vectors(each, sizes[0], first).to(device) for each in LENGTHS)
    hidden, hidden_target = (~_keep(each, device) for each in LENGTHS)
    length = max(LENGTHS["target"])
    causal = torch.ones(length, length, dtype=torch.bool, device=device).triu(1)
    if isinstance(module, nn.Transformer):
        yield {
            "src": source, "tgt": target, "tgt_mask": causal, "src_key_padding_mask": hidden,
            "tgt_key_padding_mask": hidden_target, "memory_key_padding_mask": hidden,
        }  # fmt: skip
    elif isinstance(module, nn.TransformerEncoder | nn.TransformerEncoderLayer):
        yield {"src": source, "src_key_padding_mask": hidden}
    elif isinstance(module, nn.TransformerDecoder | nn.TransformerDecoderLayer):
        yield {
            "tgt": target, "memory": source, "tgt_mask": causal,
            "tgt_key_padding_mask": hidden_target, "memory_key_padding_mask": hidden,
        }  # fmt: skip
    elif isinstance(module, nn.MultiheadAttention):
        yield {"query": source, "key": source, "value": source, "key_padding_mask": hidden}
    else:
        names = list(inspect.signature(module.forward).parameters)
        if names:
            yield {names[0]: source}


def _vectors(stream: str, size: int, batch_first: bool) -> Tensor:
    generator = torch.Generator().manual_seed(len(stream))
    lengths = LENGTHS[stream]
    vectors = torch.randn(len(lengths), max(lengths), size, generator=generator)
    return vectors if batch_first else vectors.transpose(0, 1)
