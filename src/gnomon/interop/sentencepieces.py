"""Tokenizers built from SentencePiece models, with the ids that their models were trained with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors

from gnomon.errors import ModelError
from gnomon.model.io import read_json
from gnomon.text.pretrained import PretrainedTokenizer, TokenizerRoles
from gnomon.text.sentencepiece_model import BLANK, merges_of, read_sentencepiece

_MASKED = "\ue000"  # before pieces that this side's model does not cut text into
_EXTRA_IDS = 100  # T5's sentinels, unless its settings say otherwise


def t5(path: Path, names: Mapping[str, str], settings: Mapping[str, Any]) -> Any:
    """T5's: unigram pieces in the model's order, sentinels behind them, the end behind a text."""
    model = read_sentencepiece(path)
    pieces = [(text, score) for text, score, _ in model.pieces]
    extra = settings.get("extra_ids", _EXTRA_IDS)
    sentinels = [f"<extra_id_{number}>" for number in range(extra - 1, -1, -1)]
    vocab = pieces + [(name, 0.0) for name in sentinels]
    unknown = next(i for i, (text, _) in enumerate(pieces) if text == names["unk"])
    shell = tokenizers.Tokenizer(models.Unigram(vocab, unk_id=unknown, byte_fallback=False))
    shell.normalizer = _character_map(model.character_map)
    shell.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), _blanks()])
    shell.decoder = decoders.Metaspace(replacement=BLANK, prepend_scheme="always", split=True)
    named = [names[role] for role in ("pad", "eos", "unk") if role in names]
    shell.add_special_tokens([AddedToken(n, normalized=False) for n in [*named, *sentinels]])
    end = names["eos"]
    shell.post_processor = processors.TemplateProcessing(
        single=["$A", end],
        pair=["$A", end, "$B", end],
        special_tokens=[(end, shell.token_to_id(end))],
    )
    return shell


def llama(path: Path, names: Mapping[str, str], settings: Mapping[str, Any]) -> Any:
    """Llama's and Mistral's: byte-pair merges read out of the model, bytes for what is unknown."""
    model = read_sentencepiece(path)
    vocab = {text: index for index, (text, _, _) in enumerate(model.pieces)}
    merges = merges_of([(text, score) for text, score, _ in model.pieces], vocab)
    shell = tokenizers.Tokenizer(
        models.BPE(vocab, merges, fuse_unk=True, byte_fallback=True, unk_token=names["unk"])
    )
    legacy = settings.get("legacy", False)
    shell.pre_tokenizer = pre_tokenizers.Metaspace(
        replacement=BLANK, prepend_scheme="always" if legacy else "first", split=False
    )
    shell.decoder = decoders.Sequence(
        [
            decoders.Replace(BLANK, " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    named = [names[role] for role in ("unk", "bos", "eos", "pad") if role in names]
    shell.add_special_tokens([AddedToken(name, normalized=False) for name in named])
    begin = names["bos"] if settings.get("add_bos_token", True) else None
    end = names["eos"] if settings.get("add_eos_token", False) else None
    one = [each for each in (begin, "$A", end) if each]
    two = [each for each in (begin, "$B:1", end) if each]
    shell.post_processor = processors.TemplateProcessing(
        single=one,
        pair=one + [f"{each}:1" if each != "$B:1" else each for each in two],
        special_tokens=[(name, shell.token_to_id(name)) for name in (begin, end) if name],
    )
    return shell


def marian(folder: Path, config: Mapping[str, Any]) -> tuple[PretrainedTokenizer, ...]:
    """Source and target tokenizer of a Marian model.

    Its two SentencePiece models cut text, and vocab.json (one, or one a side) numbers the pieces in
    an order of its own.

    Raises:
        ModelError: a file is missing or damaged, or no unknown token is named.
    """
    first = _vocab(folder / "vocab.json")
    two = (folder / "target_vocab.json").is_file()
    second = _vocab(folder / "target_vocab.json") if two else first
    return (
        _marian_side(folder / "source.spm", first, config),
        _marian_side(folder / "target.spm", second, config),
    )


def _marian_side(
    path: Path, vocab: dict[str, int], config: Mapping[str, Any]
) -> PretrainedTokenizer:
    model = read_sentencepiece(path)
    scores = {text: score for text, score, kind in model.pieces if kind == 1}
    specials: dict[str, Any] = {role: vocab.get(name) for role, name in _MARIAN.items()}
    if specials["unk"] is None or specials["eos"] is None:
        raise ModelError("a vocabulary must name <unk> and </s>", seen=path.parent)
    by_id: dict[int, str] = {index: text for text, index in vocab.items()}
    if sorted(by_id) != list(range(len(by_id))):
        raise ModelError("a vocabulary's ids must be 0, 1, 2 …", seen=path.parent / "vocab.json")
    lowest = min(scores.values(), default=0.0)
    entries = []
    for index in range(len(by_id)):
        text = by_id[index]
        known = text in scores
        entries.append((text if known else _MASKED + text, scores.get(text, lowest)))
    # Pieces that text is cut into although the model has no number for them: unknown.
    entries += [(text, score) for text, score in scores.items() if text not in vocab]
    shell = tokenizers.Tokenizer(models.Unigram(entries, unk_id=specials["unk"]))
    steps: list[Any] = [normalizers.Replace(_MASKED, "\ue001")]
    if model.character_map:
        steps.append(normalizers.Precompiled(model.character_map))
    if model.remove_extra_blanks:
        steps.append(normalizers.Replace(Regex(r"\A +| +\z"), ""))
        steps.append(normalizers.Replace(Regex(" {2,}"), " "))
    # nothing before an empty text
    steps.append(normalizers.Replace(Regex(r"\A(?=[\s\S])"), " "))
    steps.append(normalizers.Replace(" ", BLANK))
    shell.normalizer = normalizers.Sequence(steps)
    shell.decoder = decoders.Sequence(
        [
            decoders.Replace(_MASKED, ""),
            decoders.Replace(Regex(r"\A(?:<pad>|</s>|<unk>)\z"), ""),
            decoders.Replace(BLANK, " "),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    end = _MASKED + by_id[specials["eos"]]
    shell.post_processor = processors.TemplateProcessing(
        single=["$A", end], pair=["$A", "$B", end], special_tokens=[(end, specials["eos"])]
    )
    codes = {n: i for n, i in vocab.items() if n.startswith(">>") and n.endswith("<<")}
    roles = TokenizerRoles(**specials, num_ids=len(by_id), tags=codes or None)
    return PretrainedTokenizer(shell.to_str(), roles)


_MARIAN = {"unk": "<unk>", "eos": "</s>", "pad": "<pad>"}


def _vocab(path: Path) -> dict[str, int]:
    found = read_json(path)
    if not isinstance(found, dict) or not all(isinstance(i, int) for i in found.values()):
        raise ModelError("a vocabulary is pieces with numbers", seen=path)
    return found


def _character_map(content: bytes) -> Any:
    return normalizers.Precompiled(content) if content else None


def _blanks() -> Any:
    return pre_tokenizers.Metaspace(replacement=BLANK, prepend_scheme="always", split=True)
