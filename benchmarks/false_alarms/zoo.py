"""Every healthy patient: how it is built, on what it is trained, what is handed over."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
import torch.nn.functional as F
from benchmarks.false_alarms.architectures import ARCHITECTURES
from benchmarks.false_alarms.torch_models import (
    HEADS,
    INNER,
    LAYERS,
    WIDTH,
    TextModel,
    Translator,
    continued,
    translated,
)
from benchmarks.patients.text import (
    BOS,
    IGNORED,
    MASK,
    PAD,
    VOCAB_SIZE,
    Text,
    batch_for,
    masked_at,
    padded,
)
from benchmarks.patients.training import Task, fields_of, own_loss, seeded, train_briefly
from torch import Tensor, nn

TRAINED_STEPS = 80
MODES = ("module", "batch", "all")
Mode = Literal["module", "batch", "all"]


@dataclass(frozen=True)
class Healthy:
    """One model that nothing is wrong with.

    `weights` is shared by variants that differ only in how attention is computed: they are trained
    once. Without a task (bare modules on float inputs) there is nothing to train or hand over.
    """

    name: str
    group: Literal["huggingface", "torch", "gnomon"]
    make: Callable[[], nn.Module]
    task: Task | None
    weights: str
    floats: Callable[[], dict[str, Tensor]] | None = None

    def build(self, text: Text, cache: Path, trained: bool) -> nn.Module:
        with seeded(7):
            module = self.make()
        if trained and self.task is not None:
            saved = cache / f"healthy-{self.weights}-{TRAINED_STEPS}.safetensors"
            train_briefly(module, self.task, text, TRAINED_STEPS, saved)
        return module.eval()

    def handed_over(self, module: nn.Module, text: Text, mode: Mode) -> tuple[Any, dict[str, Any]]:
        """The batch and the fields of Patient."""
        if mode == "module":
            return None, {}
        if self.task is None:
            return self.floats() if self.floats else None, {}
        batch = self.task.batch(text, seed=1, num_rows=4, length=40)
        if mode == "batch":
            return batch, {}
        fields = fields_of(module, self.task, text)
        return batch, fields | {"max_length": 40, "reload": partial(self._reload, module)}

    def _reload(self, module: nn.Module) -> nn.Module:
        """Built again and given the saved weights, ties kept, as its user loads it."""
        again = self.make()
        again.load_state_dict(module.state_dict())
        return again.eval()


def zoo() -> Iterator[Healthy]:
    """All of them; architectures that the installed transformers lacks are left out."""
    yield from _hugging_face()
    yield from _torch()
    yield from _gnomon()


def _hugging_face() -> Iterator[Healthy]:
    for each in ARCHITECTURES:
        if each.known():
            for attention in each.attentions:
                yield Healthy(
                    f"{each.name}/{attention}",
                    "huggingface",
                    partial(each.build, attention),
                    own_loss(each.kind),
                    each.name,
                )


def _torch() -> Iterator[Healthy]:
    for norm_first in (False, True):
        for batch_first in (True, False):
            order = "pre-norm" if norm_first else "post-norm"
            layout = "batch-first" if batch_first else "time-first"
            options = {"norm_first": norm_first, "batch_first": batch_first}
            for name, kind, make in (
                ("encoder", "masked", partial(TextModel, causal=False, **options)),
                ("decoder", "causal", partial(TextModel, causal=True, **options)),
                ("translator", "seq2seq", partial(Translator, **options)),
            ):
                full = f"torch-{name}-{order}-{layout}"
                task = own_loss(kind, decodes=False)
                if kind == "causal":
                    task = replace(task, generate=continued)
                if kind == "seq2seq":
                    task = replace(task, batch=_with_decoder_input, generate=translated)
                yield Healthy(full, "torch", make, task, full)
            yield Healthy(
                f"nn.Transformer-{order}-{layout}",
                "torch",
                partial(nn.Transformer, WIDTH, HEADS, LAYERS, LAYERS, INNER, **options),
                None,
                "",
                partial(_pair_of_floats, batch_first),
            )
            yield Healthy(
                f"nn.TransformerEncoder-{order}-{layout}",
                "torch",
                partial(_bare_encoder, **options),
                None,
                "",
                partial(_floats, batch_first, "src"),
            )


def _bare_encoder(**options: bool) -> nn.Module:
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, INNER, **options)
    return nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)


def _floats(batch_first: bool, *names: str) -> dict[str, Tensor]:
    with seeded(1):
        shapes = {name: (4, 12 + 2 * i, WIDTH) for i, name in enumerate(names)}
        made = {name: torch.randn(shape) for name, shape in shapes.items()}
    padding = torch.zeros(4, 12, dtype=torch.bool)
    padding[1, 9:], padding[3, 7:] = True, True
    if not batch_first:
        made = {name: x.transpose(0, 1) for name, x in made.items()}
    return made | {"src_key_padding_mask": padding}


def _pair_of_floats(batch_first: bool) -> dict[str, Tensor]:
    """As `nn.Transformer` is to be called: the look-ahead mask is the caller's."""
    made = _floats(batch_first, "src", "tgt")
    length = made["tgt"].shape[1 if batch_first else 0]
    padding = made["src_key_padding_mask"]
    return made | {
        "tgt_mask": nn.Transformer.generate_square_subsequent_mask(length),
        "memory_key_padding_mask": padding,
    }


def _with_decoder_input(text: Text, seed: int, **shape: Any) -> dict[str, Tensor]:
    """A batch whose decoder input is the labels after <s>."""
    batch = batch_for("seq2seq", text, seed, **shape)
    known = batch["labels"].masked_fill(batch["labels"] == IGNORED, PAD)
    return batch | {"decoder_input_ids": F.pad(known[:, :-1], (1, 0), value=BOS)}


def _gnomon() -> Iterator[Healthy]:
    from gnomon.recipes import ClassificationRecipe, load_recipe, preset_names

    tasks = {
        "encoder_decoder": Task(_pair, _translation_loss, _count_targets),
        "decoder": Task(_prompts, _next_loss, _count_next),
        "encoder": Task(_hidden, _hidden_loss, _count_hidden),
    }
    for name in preset_names():
        recipe = load_recipe(name)
        if isinstance(recipe, ClassificationRecipe) and recipe.network == "bilstm":
            continue  # no Transformer
        config = recipe.model
        yield Healthy(
            f"gnomon-{name}",
            "gnomon",
            partial(_shrunk, name),
            tasks[config.family],
            f"gnomon-{name}",
        )


def _shrunk(preset: str) -> nn.Module:
    """The preset with every switch as it is, small."""
    from gnomon.model import HeadConfig, Transformer
    from gnomon.recipes import load_recipe

    config = load_recipe(preset).model
    if config.head.kind == "none":  # a classifier's: here its encoder says what is hidden
        config = replace(config, head=HeadConfig())
    heads = config.attention
    grouped = heads.num_key_value_heads not in (None, heads.num_heads)
    attention = replace(
        heads,
        num_heads=HEADS,
        num_key_value_heads=2 if grouped else None,
        head_size=None if heads.head_size is None else WIDTH // HEADS,
    )
    return Transformer(
        replace(
            config,
            vocab_size=VOCAB_SIZE,
            target_vocab_size=None,
            pad_id=PAD,
            d_model=WIDTH,
            num_encoder_layers=min(config.num_encoder_layers, 4),
            num_decoder_layers=min(config.num_decoder_layers, LAYERS),
            attention=attention,
            feedforward=replace(config.feedforward, size=INNER),
        )
    ).eval()


def _pair(text: Text, seed: int, num_rows: int, length: int, closed: bool = False) -> Any:
    """Restore a masked text: `target` begins with <s>."""
    ids, _ = padded(text.rows(num_rows, length, seed))
    return {"ids": ids.masked_fill(masked_at(ids, seed), MASK), "target": ids}


def _translation_loss(module: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    logits: Tensor = module(**batch)
    wanted = batch["target"][:, 1:]
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), wanted.flatten(), ignore_index=PAD)


def _count_targets(batch: dict[str, Tensor]) -> int:
    return int((batch["target"][:, 1:] != PAD).sum())


def _prompts(text: Text, seed: int, num_rows: int, length: int, closed: bool = False) -> Any:
    rows = text.rows(num_rows, length, seed)
    return {"ids": padded(rows if closed else [row[:-1] for row in rows])[0]}


def _next_loss(module: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    logits: Tensor = module(**batch)
    wanted = batch["ids"][:, 1:]
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), wanted.flatten(), ignore_index=PAD)


def _count_next(batch: dict[str, Tensor]) -> int:
    return int((batch["ids"][:, 1:] != PAD).sum())


def _hidden(text: Text, seed: int, num_rows: int, length: int, closed: bool = False) -> Any:
    return {"ids": padded(text.rows(num_rows, length, seed))[0]}


def _hidden_loss(module: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    places = _hidden_places(batch["ids"])
    logits: Tensor = module(ids=batch["ids"].masked_fill(places, MASK))
    return F.cross_entropy(logits[places], batch["ids"][places])


def _hidden_places(ids: Tensor) -> Tensor:
    """Every sixth token of a row: a row's loss must not depend on the rows beside it."""
    return (torch.arange(ids.shape[1], device=ids.device) % 6 == 2) & (ids != PAD)


def _count_hidden(batch: dict[str, Tensor]) -> int:
    return int(_hidden_places(batch["ids"]).sum())
