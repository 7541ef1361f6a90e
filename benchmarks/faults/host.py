"""What a fault is seeded in: a clean model, all that belongs to its training, and its seams.

A *seam* is a place where a user's own code stands in real life and where a fault can therefore be
written once for many models: the attention function, the loss, the decoding loop. A host says how
its own code at that place is exchanged; everything else of it stays as its author wrote it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol

import torch
import torch.nn.functional as F
from benchmarks.faults.hosts import training
from benchmarks.faults.hosts.decoding import beam_search, greedy
from benchmarks.faults.hosts.text import LONGEST, PAD, CharacterTokenizer, lines
from torch import Tensor, nn

from gnomon.doctor.patient import Patient

Kind = Literal["gnomon", "huggingface", "hand-written"]
Weights = Literal["fresh", "trained", "sharp"]
Role = Literal["encoder", "decoder", "cross"]
Batch = dict[str, Tensor]


@dataclass(frozen=True)
class Site:
    """One attention sublayer.

    Args:
        name: dotted name of its module.
        role: self-attention of the encoder or decoder, or attention to the encoder's output.
        layer: its layer's number in the stack.
        first_head: where one module holds only some of a layer's heads, the first of them.
    """

    name: str
    role: Role
    layer: int
    first_head: int = 0


@dataclass(frozen=True)
class Call:
    """One call of the attention function, whatever the layout of the host's own tensors.

    Args:
        query: `[B, H, T, K]`, not scaled.
        key: `[B, H, S, K]`.
        value: `[B, H, S, K]`.
        keep: bool `[B|1, H|1, T, S]`, True = may attend.
        bias: added to the scaled scores (T5, ALiBi), or None.
        scale: factor on the scores.
        dropout: probability in force now (0 in eval).
        training: whether the sublayer is in training mode.
        site: which sublayer calls.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    keep: Tensor
    bias: Tensor | None
    scale: float
    dropout: float
    training: bool
    site: Site

    def but(self, **changes: Any) -> Call:
        """The same call with fields replaced."""
        return replace(self, **changes)

    @property
    def heads(self) -> list[int]:
        """Numbers of the heads in this call."""
        first = self.site.first_head
        return list(range(first, first + self.query.shape[1]))


Attend = Callable[[Call], Tensor]  # → [B, H, T, K]
Change = Callable[[Call, Attend], Tensor]  # gets the host's own attention as second argument


@dataclass(frozen=True)
class Prediction:
    """What the loss compares.

    Args:
        logits: `[B, T, V]`.
        targets: int64 `[B, T]`, of the same positions.
        real: bool `[B, T]`, the positions that count.
    """

    logits: Tensor
    targets: Tensor
    real: Tensor

    def mean_loss(self) -> Tensor:
        """Cross-entropy, the mean over the positions that count."""
        return F.cross_entropy(self.logits[self.real].float(), self.targets[self.real])


class Decoding(Protocol):
    """Token by token with a cache; `state` is whatever the host keeps between steps."""

    def start(self, module: nn.Module, batch: Batch) -> tuple[Any, Tensor]:
        """Read the prompt (or source); returns the state and logits `[B, V]` of the next token."""

    def advance(self, module: nn.Module, state: Any, tokens: Tensor) -> Tensor:
        """Add `tokens [B]`; returns logits `[B, V]` of the next."""

    def reorder(self, state: Any, rows: Tensor) -> None:
        """Row i becomes what row `rows[i]` was; rows may be repeated."""


@dataclass(frozen=True)
class Layer:
    """Dotted names of one layer's parts, for faults that replace parts; "" where there is none.

    Args:
        name: the layer.
        norms: its normalisations.
        up: the first projection(s) of the feed-forward.
        down: its last projection.
        query: weight that makes queries (it may make keys and values too: then `fused`).
        key: weight that makes keys.
        out: weight of the projection after attention.
        fused: rows (or, `transposed`, columns) of `query` are queries, keys, values in turn.
        transposed: weights are stored as `[in, out]`.
    """

    name: str
    norms: tuple[str, ...]
    up: str
    down: str
    query: str
    key: str
    out: str
    fused: bool = False
    transposed: bool = False


@dataclass(frozen=True)
class Anatomy:
    """Dotted names of a host's parts.

    Args:
        layers: of the stack that writes the output (a decoder's), or the only one.
        encoder_layers: of an encoder-decoder's encoder.
        embedding: module or parameter with the (first) token table.
        output: module or parameter of the output projection.
        positions: modules of the added positions (none for rope and relative bias).
    """

    layers: tuple[Layer, ...]
    embedding: str
    output: str = ""
    positions: tuple[str, ...] = ()
    encoder_layers: tuple[Layer, ...] = ()


@dataclass(frozen=True)
class Host:
    """One clean model with all that a user could hand over.

    Args:
        name: of the host.
        kind: who wrote it.
        family: encoder, decoder or encoder_decoder.
        make: seed → module, fresh weights.
        make_batch: seed → one padded batch of real text, keyword arguments of the module.
        sites: the module's attention sublayers.
        reroute: `reroute(module, site, change)` sends a sublayer's attention through `change`.
        predict: what the loss compares, of a module and a batch.
        source: name of the input with ids of the encoder, or of the only text.
        target: name of the decoder's input in an encoder-decoder.
        mask: name of the padding mask among the inputs; "" if the model makes it from the ids.
        anatomy: names of the parts.
        traits: what there is to break: causal, padding (of the self-attention), cross, cache,
            tied, scaled-embedding, learned-positions, sinusoidal, rope, relative, post-norm,
            layer-norm, rms, gated, packed, config.
        rotate: `rotate(module, angles, mixed)` exchanges the rotary angles: `angles(positions,
            rates)` → `[..., T, K/2]`; `mixed`: pairs coordinates in the other convention.
        residual: `residual(module, layer, factor)` weighs the residual path around the last
            sublayer of a layer.
        decoding: how it decodes with its cache (causal hosts only).
        held_out: kept for the figure on hosts that checks were not developed on.
        declared: fields of `Patient` that a user of such a model would fill in.
        sharp: widths of sharp weights (tables, matrices, those of cross-attention).
        module_loss: whether `module(**batch).loss` is the training loss.
    """

    name: str
    kind: Kind
    family: Literal["encoder", "decoder", "encoder_decoder"]
    make: Callable[[int], nn.Module]
    make_batch: Callable[[int], Batch]
    sites: Callable[[nn.Module], list[Site]]
    reroute: Callable[[nn.Module, Site, Change], None]
    predict: Callable[[nn.Module, Mapping[str, Tensor]], Prediction]
    anatomy: Anatomy
    traits: frozenset[str]
    source: str = "ids"
    target: str = ""
    mask: str = ""
    rotate: Callable[[nn.Module, Any, bool], None] | None = None
    residual: Callable[[nn.Module, int, float], None] | None = None
    decoding: Decoding | None = None
    held_out: bool = False
    declared: Mapping[str, Any] = field(default_factory=dict)
    sharp: tuple[float, float, float] = (0.1, 3.0, 3.0)
    module_loss: bool = False

    def loss(self, module: nn.Module, batch: Mapping[str, Tensor]) -> Tensor:
        """The training loss of one batch."""
        if self.module_loss:
            loss: Tensor = module(**batch).loss
            return loss
        return self.predict(module, batch).mean_loss()

    def module(
        self, seed: int, weights: Weights = "fresh", folder: Path | None = None
    ) -> nn.Module:
        """A clean module: fresh, briefly trained (kept in `folder`), or with sharp opinions."""
        module = self.make(seed)
        if weights == "trained":
            training.train_briefly(self, module, seed, folder)
        elif weights == "sharp":
            table, matrix, cross = self.sharp
            names = [site.name for site in self.sites(module) if site.role == "cross"]
            training.sharpen(module, table, matrix, cross, names)
        return module.eval()

    def equip(self, module: nn.Module, seed: int) -> Patient:
        """The patient of a module: batch, training and decoding as this host's user has them."""
        batch = self.make_batch(seed)
        optimizer = training.make_optimizer(module)
        schedule = training.make_schedule(optimizer)
        saved = copy.deepcopy(module.state_dict())

        def reload() -> nn.Module:
            again = copy.deepcopy(module)
            again.load_state_dict(saved)
            return again

        fields: dict[str, Any] = {}
        if self.decoding is not None:
            decoding = self.decoding
            fields["generate"] = lambda m, b, n: greedy(decoding, m, b, n)
            fields["beam_generate"] = lambda m, b, n, k: beam_search(decoding, m, b, n, k)
        return Patient(
            module=module,
            batch=batch,
            loss=self.loss,
            optimizer=optimizer,
            schedule=schedule,
            step=training.make_step(self.predict, module, optimizer, schedule),
            clip_norm=training.CLIP_NORM,
            planned_steps=training.PLANNED_STEPS,
            reload=reload,
            tokenizer=CharacterTokenizer(),
            texts=lines(seed, 8),
            pad_id=PAD,
            padding_side="right",
            max_length=LONGEST,
            **fields,
            **self.declared,
        )

    def patient(
        self, seed: int = 0, weights: Weights = "fresh", folder: Path | None = None
    ) -> Patient:
        """The clean patient."""
        return self.equip(self.module(seed, weights, folder), seed)


def part(module: nn.Module, name: str) -> Any:
    """The submodule or parameter with this dotted name."""
    for piece in name.split(".") if name else ():
        module = getattr(module, piece) if not piece.isdigit() else module[int(piece)]
    return module


def put(module: nn.Module, name: str, new: Any) -> None:
    """Put `new` in place of the submodule or parameter with this dotted name."""
    parent, _, last = name.rpartition(".")
    holder = part(module, parent)
    if isinstance(holder, nn.ModuleList | nn.Sequential) and last.isdigit():
        holder[int(last)] = new
    else:
        setattr(holder, last, new)


def seeded(seed: int, build: Callable[[], nn.Module]) -> nn.Module:
    """`build()` under a seed; the caller's random state stays as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build()


def norms_of(module: nn.Module, host: Host) -> list[nn.Module]:
    """The normalisations of all layers that are still where they were."""
    layers = (*host.anatomy.encoder_layers, *host.anatomy.layers)
    return [part(module, name) for layer in layers for name in layer.norms]
