"""How a patient generates: by its user's own loop, or by that of the house it comes from."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from gnomon.doctor.call import Call
from gnomon.doctor.case import Case
from gnomon.doctor.finding import Skip

Generate = Callable[[Call, int], Tensor]


def loop(case: Case, num_beams: int = 1) -> Generate:
    """`run(call, num_tokens)` → int64 `[B, n]`, as it is in use.

    Raises:
        Skip: it is not known how this model generates.
    """
    patient, module = case.patient, case.module
    if num_beams > 1 and patient.beam_generate is not None:
        beam = patient.beam_generate
        return lambda call, n: _ids(beam(module, call.as_batch(patient.batch), n, num_beams))
    if num_beams == 1 and patient.generate is not None:
        greedy = patient.generate
        return lambda call, n: _ids(greedy(module, call.as_batch(patient.batch), n))
    if case.kind == "huggingface" and hasattr(module, "generate"):
        return lambda call, n: _huggingface(module, call, n, num_beams)
    if case.kind == "gnomon" and hasattr(module, "new_cache"):
        if num_beams > 1:
            return lambda call, n: _gnomon_beams(module, call, n, num_beams)
        return lambda call, n: _gnomon_greedy(module, call, n)
    name = "beam_generate" if num_beams > 1 else "generate"
    raise Skip(f"how it generates is not known: hand over {name}=")


def _ids(returned: Any) -> Tensor:
    """What the user's function returned.

    Raises:
        Skip: it is no `[B, n]` of ids.
    """
    if not isinstance(returned, Tensor) or returned.dim() != 2 or returned.is_floating_point():
        what = (
            f"a {returned.dtype} tensor of {tuple(returned.shape)}"
            if isinstance(returned, Tensor)
            else f"a {type(returned).__name__}"
        )
        raise Skip(f"generating gives {what}, not ids [B, n]")
    return returned


def _huggingface(module: Any, call: Call, num_tokens: int, num_beams: int) -> Tensor:
    takes = inspect.signature(module.forward).parameters
    inputs = {
        str(key): value
        for key, value in call.values.items()
        if str(key) in takes and str(key) != "position_ids"
    }
    pad_id = call.streams[call.read].pad_id
    tokens: Tensor = module.generate(
        **inputs,
        max_new_tokens=num_tokens,
        min_new_tokens=num_tokens,
        do_sample=False,
        num_beams=num_beams,
        use_cache=True,
        pad_token_id=0 if pad_id is None else pad_id,
    )
    return tokens


def _gnomon_greedy(module: Any, call: Call, num_tokens: int) -> Tensor:
    ids, cache = call.text(call.read), module.new_cache()
    memory = memory_keep = None
    keep = call.keep("source") if call.read == "source" else None
    if call.read == "target":
        memory_keep = call.keep("source")
        memory = module.encode(call.text("source"), memory_keep)
    made: list[Tensor] = []
    for _ in range(num_tokens):
        hidden = module.decode(ids, memory, memory_keep, keep=keep, cache=cache)
        ids, keep = module.project(hidden[:, -1:]).argmax(-1), None
        made.append(ids)
    return torch.cat(made, dim=1)


def _gnomon_beams(module: Any, call: Call, num_tokens: int, num_beams: int) -> Tensor:
    from gnomon.decoding import DecoderScorer, EncoderDecoderScorer, SearchConfig, beam_search

    ids = call.text(call.read)
    if not bool((ids[:, 0] == ids[0, 0]).all()):
        raise Skip("the texts begin with different tokens, and a search has one begin token")
    scorer: Any
    if call.read == "target":
        scorer = EncoderDecoderScorer(module, call.text("source"), call.keep("source"))
    else:
        scorer = DecoderScorer(module, [row[1:].tolist() for row in ids], ids.device)
    # The search needs an end: it may come after the last token only, so that no text is shorter.
    size = module.config.output_vocab_size()
    config = SearchConfig(beam=num_beams, length_penalty="none", min_length=num_tokens)
    found = beam_search(
        scorer, config, pad_id=size - 1, bos_id=int(ids[0, 0]), eos_id=size - 2,
        max_lengths=[num_tokens] * len(ids),
    )  # fmt: skip
    rows = [list(each[0].tokens)[:num_tokens] for each in found]
    return torch.tensor([row + [size - 1] * (num_tokens - len(row)) for row in rows])
