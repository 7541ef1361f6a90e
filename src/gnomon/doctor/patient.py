"""What can be handed to the doctor: a module and whatever else of its training is at hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Literal

from torch import Tensor, nn
from torch.optim import Optimizer

from gnomon.doctor.finding import Outcome
from gnomon.errors import DoctorError, excerpt

Family = Literal["encoder", "decoder", "encoder_decoder"]
Precision = Literal["fp32", "fp16", "bf16"]
Batch = Mapping[str, Any] | Sequence[Any]


@dataclass(frozen=True, kw_only=True)
class Patient:
    """Everything known of what is to be examined. All of it is optional but something to examine.

    A check that needs what is not there is skipped, and says so.

    Args:
        module: the model. It is examined as it is, and left as it was.
        batch: one call's inputs: a mapping of keyword arguments, or the positional ones. Of real
            text where there is some; without it a batch is made up.
        loss: `loss(module, batch)` → scalar, as training computes it, without backward pass or
            step. Without it, the model's own `loss` output is used where `labels` are among its
            inputs.
        optimizer: as training uses it, over the module's parameters.
        schedule: a torch scheduler, or a function from the step (0, 1, …) to the learning rate.
        step: `step(batches)` makes one optimizer step over these micro-batches, as training does
            (accumulation, clipping, schedule); run on the real objects and rolled back.
        clip_norm: the gradient norm that training clips at.
        planned_steps: optimizer steps of the whole training.
        precision: what training or serving will compute in; else both what-ifs are answered.
        generate: `generate(module, batch, num_tokens)` → int64 `[B, n]`, greedy, with the cache, as
            it is used in production; only the new tokens, or prompt and new tokens.
        beam_generate: `beam_generate(module, batch, num_tokens, num_beams)` → the same, by beam
            search.
        reload: builds the model again from what was saved (for saved = loaded, and ties).
        tokenizer: a Hugging Face tokenizer, or anything with `encode(text)` → ids and a length.
        texts: some lines of real text for the tokenizer.
        family: what the model is meant to be; inferred when not given.
        causal: whether its (decoder's) positions must not see later ones; inferred when not given.
        pad_id: the id of padding; inferred when not given.
        padding_side: the side on which batches are padded in use.
        max_length: the longest input the model was trained on.
        document_key: the name of the input that numbers the documents packed into one row.
        config: the model's configuration where the module does not carry it.
        folder: where the model was saved (model, exported or Hugging Face folder, run).
        recipe: a gnomon recipe (`gnomon.recipes.Recipe`).
        corpus: parallel text as files: "source" and "target", and the same with "valid_", "test_".
        replay: makes a failed step again as its crash bundle recorded it, and says what was seen.
        trusted: whether code that came with the model may run (rebuilding it from its folder).
    """

    module: nn.Module | None = None
    batch: Batch | None = None
    loss: Callable[[nn.Module, Any], Tensor] | None = None
    optimizer: Optimizer | None = None
    schedule: Any = None
    step: Callable[[Sequence[Any]], Any] | None = None
    clip_norm: float | None = None
    planned_steps: int | None = None
    precision: Precision | None = None
    generate: Callable[[nn.Module, Any, int], Tensor] | None = None
    beam_generate: Callable[[nn.Module, Any, int, int], Tensor] | None = None
    reload: Callable[[], nn.Module] | None = None
    tokenizer: Any = None
    texts: Sequence[str] = ()
    family: Family | None = None
    causal: bool | None = None
    pad_id: int | None = None
    padding_side: Literal["left", "right"] | None = None
    max_length: int | None = None
    document_key: str | None = None
    config: Any = None
    folder: Path | None = None
    recipe: Any = None
    corpus: Mapping[str, Path] | None = None
    replay: Callable[[], Outcome] | None = None
    trusted: bool = False

    def __post_init__(self) -> None:
        """What is not of its kind is told here, and not by every check that would use it.

        Raises:
            DoctorError: a field holds something else than is written above.
        """
        for name, (holds, what) in _KINDS.items():
            value = getattr(self, name)
            if value is not None and not holds(value):
                kind = f"the class {value.__name__}" if isinstance(value, type) else repr(value)
                raise DoctorError(
                    f"{name} is {what}", seen=excerpt(kind, 200), mend=f"hand over {what}"
                )


def _is_count(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1


def _is_optimizer(value: Any) -> bool:
    return not isinstance(value, type) and hasattr(value, "param_groups")


def _is_schedule(value: Any) -> bool:
    return not isinstance(value, type) and (callable(value) or hasattr(value, "step"))


def _is_pad_id(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 0


def _one_of(*words: str) -> tuple[Callable[[Any], bool], str]:
    return lambda value: value in words, f"one of {', '.join(words)}"


_FUNCTION = callable, "a function"
_COUNT = _is_count, "a whole number of 1 or more"
_KINDS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "module": (lambda value: isinstance(value, nn.Module), "a torch.nn.Module"),
    "loss": _FUNCTION,
    "optimizer": (_is_optimizer, "a torch optimizer over the module's parameters"),
    "schedule": (_is_schedule, "a torch scheduler or a function from the step to the rate"),
    "step": _FUNCTION,
    "clip_norm": (lambda value: isinstance(value, Real), "a number"),
    "planned_steps": _COUNT,
    "precision": _one_of("fp32", "fp16", "bf16"),
    "generate": _FUNCTION,
    "beam_generate": _FUNCTION,
    "reload": _FUNCTION,
    "texts": (
        lambda value: isinstance(value, Sequence) and not isinstance(value, str),
        "a list of lines",
    ),
    "family": _one_of("encoder", "decoder", "encoder_decoder"),
    "causal": (lambda value: isinstance(value, bool), "True or False"),
    "pad_id": (_is_pad_id, "a whole number of 0 or more"),
    "padding_side": _one_of("left", "right"),
    "max_length": _COUNT,
    "folder": (lambda value: isinstance(value, Path), "a pathlib.Path"),
    "corpus": (lambda value: isinstance(value, Mapping), "a mapping from names to paths"),
    "replay": _FUNCTION,
}
