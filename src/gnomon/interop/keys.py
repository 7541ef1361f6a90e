"""A foreign config.json, read key by key: what is not understood is refused by name."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from gnomon.errors import ModelError

_REQUIRED = object()

# Keys that say nothing of the computation: who wrote the file, how training began, what generation
# does by default (read from generation_config.json or not at all), names of labels.
_SILENT = """
    _name_or_path _commit_hash _attn_implementation _attn_implementation_autoset model_type
    architectures transformers_version torch_dtype dtype use_cache initializer_range
    initializer_factor init_std gradient_checkpointing output_attentions output_hidden_states
    return_dict torchscript tf_legacy_loss use_bfloat16 chunk_size_feed_forward id2label label2id
    num_labels _num_labels problem_type finetuning_task task_specific_params classifier_dropout
    classif_dropout tokenizer_class prefix language is_encoder_decoder output_past
    max_length min_length do_sample early_stopping num_beams num_beam_groups diversity_penalty
    temperature top_k top_p typical_p repetition_penalty length_penalty no_repeat_ngram_size
    encoder_no_repeat_ngram_size bad_words_ids num_return_sequences output_scores
    return_dict_in_generate forced_bos_token_id forced_eos_token_id remove_invalid_values
    exponential_decay_length_penalty suppress_tokens begin_suppress_tokens max_new_tokens
    pad_token_id bos_token_id eos_token_id sep_token_id decoder_start_token_id unk_token_id
    mask_token_id cls_token_id encoder_layerdrop decoder_layerdrop unsloth_version unsloth_fixed
    gnomon
"""
SILENT = frozenset(_SILENT.split())

# Keys whose one value does nothing; any other changes the computation in a way we do not have.
ONLY: Mapping[str, tuple[Any, ...]] = {
    "is_decoder": (False,),
    "add_cross_attention": (False,),
    "cross_attention_hidden_size": (None,),
    "tie_encoder_decoder": (False,),
    "pruned_heads": ({}, None),
    "quantization_config": (None,),
    "compression_config": (None,),
    "auto_map": (None, {}),
}


class Keys:
    """The keys of a config.json, and which of them have been understood.

    Args:
        values: its content.
        place: how messages name the file.
        ignored: keys that the user says to pass over.
    """

    def __init__(
        self, values: Mapping[str, Any], place: str, ignored: Collection[str] = ()
    ) -> None:
        self.values = values
        self.place = place
        self._read = set(SILENT) | set(ignored)
        self._ignored = set(ignored)

    def get(self, key: str, default: Any = _REQUIRED) -> Any:
        """The value of `key`, or `default` where it is not there.

        Raises:
            ModelError: it is not there, and has no default.
        """
        self._read.add(key)
        value = self.values.get(key, default)
        if value is _REQUIRED:
            raise ModelError(
                f"{self.place} must have the key {key}", mend="name a folder of that architecture"
            )
        return value

    def size(self, key: str, default: Any = _REQUIRED) -> int:
        """A positive whole number."""
        value = self.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ModelError(
                f"{self.place}: {key} must be a positive whole number", seen=repr(value)
            )
        return value

    def number(self, key: str, default: Any = _REQUIRED) -> float:
        """A number."""
        value = self.get(key, default)
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise ModelError(f"{self.place}: {key} must be a number", seen=repr(value))
        return float(value)

    def flag(self, key: str, default: Any = _REQUIRED) -> bool:
        """True or false."""
        value = self.get(key, default)
        if not isinstance(value, bool):
            raise ModelError(f"{self.place}: {key} must be true or false", seen=repr(value))
        return value

    def choice(self, key: str, choices: Mapping[str, Any], default: Any = _REQUIRED) -> Any:
        """What one of several names stands for.

        Raises:
            ModelError: it is another name.
        """
        value = self.get(key, default)
        if value not in choices:
            raise self.refused(key, value, f"what can be taken in: {', '.join(choices)}")
        return choices[value]

    def only(self, key: str, *allowed: Any) -> None:
        """Refuse `key` where it is there with another value than these."""
        if (key in self.values) and key not in self._ignored:
            self._read.add(key)
            value = self.values[key]
            if not any(value == each for each in allowed):
                shown = " or ".join(map(repr, allowed))
                raise self.refused(key, value, f"only {shown} can be taken in")

    def silent(self, *keys: str) -> None:
        """Say that these keys do not change the computation."""
        self._read.update(keys)

    def finish(self) -> None:
        """Refuse what has not been read.

        Raises:
            ModelError: keys are there that nobody has asked for, or that change the computation.
        """
        for key, allowed in ONLY.items():
            if key not in self._read:
                self.only(key, *allowed)
        if unknown := sorted(key for key in self.values if key not in self._read):
            raise ModelError(
                "every key of a config.json must be known, since one that is not may change what "
                "the model computes",
                seen=f"{self.place}: "
                + "; ".join(f"{key} = {_shown(self.values[key])}" for key in unknown),
                mend=f"if it changes nothing, say --ignore {unknown[0]}",
            )

    def refused(self, key: str, value: Any, mend: str) -> ModelError:
        """What to raise for a value that cannot be expressed."""
        return ModelError(
            "this model computes something that gnomon's blocks do not",
            seen=f"{self.place}: {key} = {_shown(value)}",
            mend=mend,
        )


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 120 else text[:119] + "…"
