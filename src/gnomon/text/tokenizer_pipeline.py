"""What stands around a model of subwords: normalizer, pre-tokenizer, decoder, tags."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from gnomon.text.reserved import BYTES, RESERVED_NAMES, SPECIALS, UNK_ID
from gnomon.text.scripts import UNSPACED
from gnomon.text.tokenizer_config import VocabularyConfig

_UNSPACED = "".join(rf"\p{{{script}}}" for script in UNSPACED) + "ー"


def normalizer(config: VocabularyConfig) -> Any:
    """Bring text into one Unicode form, a blank in front of a first word; see `Tokenizer`."""
    steps: list[Any] = []
    if config.normalization != "none":
        steps.append(normalizers.NFC() if config.normalization == "nfc" else normalizers.NFKC())
    if config.lowercase:
        steps.append(normalizers.Lowercase())
    alone = _UNSPACED + (r"\p{N}" if config.split_digits else "")
    steps.append(normalizers.Prepend(" "))
    steps.append(normalizers.Replace(tokenizers.Regex(rf"\A (?=[{alone}])"), ""))
    return normalizers.Sequence(steps)


def pre_tokenizer(config: VocabularyConfig, tags: Sequence[str], *first: str) -> Any:
    """Cut text where no piece may reach across: between words, scripts, numbers, punctuation."""
    reserved = rf"<(?=(?:{RESERVED_NAMES}{_alternatives(tags)})>)"
    pattern = "|".join(
        (
            *first,
            reserved,
            rf"[{_UNSPACED}]+",
            rf" ?(?:(?![{_UNSPACED}])[\p{{L}}\p{{M}}])+",
            r"\p{N}" if config.split_digits else r" ?\p{N}+",
            rf" ?(?:(?!{reserved})[^\s\p{{L}}\p{{M}}\p{{N}}])+",
            r"\s+(?!\S)",  # all but the last of several blanks: that one belongs to the next word
            r"\s",
        )
    )
    return pre_tokenizers.Split(tokenizers.Regex(pattern), behavior="isolated")


def assemble(model: dict[str, Any], config: VocabularyConfig, tags: Sequence[str]) -> str:
    """Return the text of the `tokenizer.json` around a learned model."""
    shell = tokenizers.Tokenizer(models.BPE())
    shell.normalizer = normalizer(config)
    shell.pre_tokenizer = pre_tokenizer(config, tags)
    shell.decoder = decoders.Sequence(
        [
            decoders.Replace(SPECIALS[UNK_ID], "\ufffd"),
            decoders.Replace(tokenizers.Regex(rf"\A<(?:pad|s|/s{_alternatives(tags)})>\z"), ""),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    if tags:
        shell.post_processor = processors.TemplateProcessing(
            single="$A",
            special_tokens=[(tag, config.num_reserved + i) for i, tag in enumerate(tags)],
        )
    whole = json.loads(shell.to_str())
    whole["model"] = model
    return json.dumps(whole, ensure_ascii=False, indent=1) + "\n"


def tags_in(serialized: str) -> dict[str, int]:
    """The tags of a `tokenizer.json`, listed where its format has special tokens that are put in
    front of a text; gnomon's template puts none there, as not every text gets the same."""
    template = json.loads(serialized).get("post_processor") or {}
    listed = template.get("special_tokens", {}).items()
    return dict(sorted(((tag, about["ids"][0]) for tag, about in listed), key=lambda item: item[1]))


def reserved_names(config: VocabularyConfig, tags: Sequence[str]) -> tuple[str, ...]:
    """Names of the ids that are not learned from text, in their order."""
    return (*SPECIALS, *(BYTES if config.byte_fallback else ()), *tags)


def _alternatives(tags: Sequence[str]) -> str:
    """A pattern for what stands between the brackets of a tag, "" or "|2de|2fr"."""
    return "".join("|" + re.escape(tag[1:-1]) for tag in tags)
