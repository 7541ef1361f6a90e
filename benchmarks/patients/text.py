"""Real text that is on every machine: the docstrings of Python's standard library.

Read when the benchmark runs, so nothing is downloaded and nothing is committed. Another Python
version has slightly other docstrings; figures are compared within one run.
"""

from __future__ import annotations

import ast
import random
import sysconfig
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch import Tensor

BOS, PAD, EOS, UNK, MASK = range(5)  # as RoBERTa and BART number them, the mask aside
SPECIALS = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
VOCAB_SIZE = 400
IGNORED = -100


def docstrings(max_chars: int = 600_000) -> list[str]:
    """Paragraphs of the standard library's docstrings, in the order of the files' names."""
    found: list[str] = []
    size = 0
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # old escapes in old modules
                tree = ast.parse(path.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError):
            continue
        for node in ast.walk(tree):
            if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                continue
            for paragraph in (ast.get_docstring(node) or "").split("\n\n"):
                text = " ".join(paragraph.split())
                if len(text) >= 40:
                    found.append(text)
                    size += len(text)
        if size >= max_chars:
            break
    return found


def learn_tokenizer(texts: list[str]) -> Tokenizer:
    """A byte-level BPE of `VOCAB_SIZE` pieces that wraps a text in <s> … </s>."""
    tokenizer = Tokenizer(models.BPE(unk_token=SPECIALS[UNK]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        special_tokens=SPECIALS,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", BOS), ("</s>", EOS)]
    )
    return tokenizer


@dataclass(frozen=True)
class Text:
    """Encoded lines and the tokenizer that made them."""

    tokenizer: Tokenizer
    lines: tuple[str, ...]
    ids: tuple[tuple[int, ...], ...]  # each <s> … </s>

    @classmethod
    def read(cls, folder: Path) -> Text:
        """The text; the tokenizer is learned once and kept in `folder`."""
        lines = docstrings()
        saved = folder / f"tokenizer-{VOCAB_SIZE}.json"
        if saved.exists():
            tokenizer = Tokenizer.from_file(str(saved))
        else:
            tokenizer = learn_tokenizer(lines)
            folder.mkdir(parents=True, exist_ok=True)
            tokenizer.save(str(saved))
        ids = tuple(tuple(e.ids) for e in tokenizer.encode_batch(lines))
        return cls(tokenizer=tokenizer, lines=tuple(lines), ids=ids)

    def hugging_face(self) -> Any:
        """The tokenizer as transformers has it."""
        from transformers import PreTrainedTokenizerFast

        return PreTrainedTokenizerFast(
            tokenizer_object=self.tokenizer,
            bos_token=SPECIALS[BOS],
            pad_token=SPECIALS[PAD],
            eos_token=SPECIALS[EOS],
            unk_token=SPECIALS[UNK],
            mask_token=SPECIALS[MASK],
        )

    def rows(self, num_rows: int, length: int, seed: int) -> list[list[int]]:
        """`num_rows` rows of unequal length, the longest of exactly `length` ids."""
        draw = random.Random(seed)
        long = [row for row in self.ids if len(row) >= length]
        others = [row for row in self.ids if length // 2 <= len(row)]
        picked = [draw.choice(long)] + [draw.choice(others) for _ in range(num_rows - 1)]
        return [[*row[: length - 1], EOS] if len(row) > length else list(row) for row in picked]


def padded(rows: list[list[int]]) -> tuple[Tensor, Tensor]:
    """int64 ids and mask `[B, T]`, padded on the right."""
    length = max(map(len, rows))
    ids = torch.tensor([row + [PAD] * (length - len(row)) for row in rows])
    mask = torch.tensor([[1] * len(row) + [0] * (length - len(row)) for row in rows])
    return ids, mask


def masked_at(ids: Tensor, seed: int, share: float = 0.15) -> Tensor:
    """bool `[B, T]`: which ordinary tokens are hidden, at least one a row."""
    generator = torch.Generator().manual_seed(seed)
    chance = torch.rand(ids.shape, generator=generator)
    ordinary = ids >= len(SPECIALS)
    chosen = (chance < share) & ordinary
    first = chance.masked_fill(~ordinary, 2.0).argmin(dim=1, keepdim=True)
    return chosen.scatter(1, first, True)


def batch_for(
    kind: str, text: Text, seed: int, num_rows: int = 8, length: int = 48, closed: bool = False
) -> dict[str, Tensor]:
    """One right-padded batch as a user of this kind of model makes it, labels included.

    `kind` is "masked" (encoders), "causal" (decoders), "seq2seq" (restore a masked text) or
    "classify" (does the text speak of what something returns?). Rows of "causal" end without </s>
    unless `closed`: they are prompts as well.
    """
    rows = text.rows(num_rows, length, seed)
    if kind == "causal" and not closed:
        rows = [row[:-1] for row in rows]
    ids, mask = padded(rows)
    batch = {"input_ids": ids, "attention_mask": mask}
    if kind == "causal":
        batch["labels"] = ids.masked_fill(mask == 0, IGNORED)
    elif kind == "masked":
        hidden = masked_at(ids, seed)
        batch["input_ids"] = ids.masked_fill(hidden, MASK)
        batch["labels"] = ids.masked_fill(~hidden, IGNORED)
    elif kind == "seq2seq":
        batch["input_ids"] = ids.masked_fill(masked_at(ids, seed), MASK)
        batch["labels"] = ids.masked_fill(mask == 0, IGNORED)
    elif kind == "classify":
        texts = text.tokenizer.decode_batch(rows)
        batch["labels"] = torch.tensor([int("eturn" in line) for line in texts])
    else:
        raise ValueError(kind)
    return batch
