"""Character models of one book: loss, and tokens a second beside a plain eager loop of that size.

    python benchmarks/shakespeare.py --data input.txt --steps 200

The plain loop is what one writes by hand in PyTorch: random windows, fused attention, AdamW, fp32.
It runs in turns with gnomon's training, so that whatever else the machine does meets both.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from gnomon import api
from gnomon.recipes import LanguageModelRecipe
from gnomon.training import Listener, StepRecord


class PlainBlock(nn.Module):
    """Attention and feed-forward, each behind a norm."""

    def __init__(self, width: int, num_heads: int, inner: int) -> None:
        super().__init__()
        self.num_heads = num_heads
        self.norms = nn.ModuleList(nn.LayerNorm(width, bias=False) for _ in range(2))
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.up = nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map [B, T, D] to [B, T, D]."""
        B, T, D = x.shape
        q, k, v = self.qkv(self.norms[0](x)).view(B, T, 3, self.num_heads, -1).unbind(2)
        q, k, v = (each.transpose(1, 2) for each in (q, k, v))
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(B, T, D))
        return x + self.down(F.gelu(self.up(self.norms[1](x))))


class PlainModel(nn.Module):
    """A decoder with learned positions and a tied table."""

    def __init__(self, recipe: LanguageModelRecipe, vocab_size: int) -> None:
        super().__init__()
        model = recipe.model
        self.table = nn.Embedding(vocab_size, model.d_model)
        self.places = nn.Embedding(recipe.data.context, model.d_model)
        self.blocks = nn.ModuleList(
            PlainBlock(model.d_model, model.attention.num_heads, model.feedforward.size)
            for _ in range(model.num_decoder_layers)
        )
        self.norm = nn.LayerNorm(model.d_model, bias=False)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits [B, T, V]."""
        x = self.table(ids) + self.places(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.table.weight)


class PlainLoop:
    """Steps on random windows of the training text."""

    def __init__(self, recipe: LanguageModelRecipe, text: str) -> None:
        letters = sorted(set(text))
        self.ids = torch.tensor([letters.index(letter) for letter in text[: int(0.9 * len(text))]])
        self.model = PlainModel(recipe, len(letters))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3, betas=(0.9, 0.99))
        self.context = recipe.data.context
        self.rows = recipe.training.tokens_per_batch // self.context

    def step(self) -> None:
        """One step."""
        starts = torch.randint(len(self.ids) - self.context - 1, (self.rows, 1))
        windows = self.ids[starts + torch.arange(self.context + 1)]
        logits = self.model(windows[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()


class InTurns(Listener):
    """After every few steps of gnomon's, as many of the plain loop."""

    def __init__(self, plain: PlainLoop, turn: int) -> None:
        self.plain = plain
        self.turn = turn
        self.own: list[float] = []
        self.turns: list[tuple[float, float]] = []

    def on_step(self, record: StepRecord) -> None:
        """Measure a turn of the plain loop when gnomon's is over."""
        self.own.append(record.seconds)
        if len(self.own) < self.turn:
            return
        generators = torch.get_rng_state()
        started = time.perf_counter()
        for _ in range(self.turn):
            self.plain.step()
        self.turns.append((sum(self.own), time.perf_counter() - started))
        torch.set_rng_state(generators)
        self.own = []


def main() -> None:
    """Train, and print what was measured."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--data", type=Path, required=True)
    arguments.add_argument("--preset", default="shakespeare-nanogpt")
    arguments.add_argument("--steps", type=int, help="default: all of the preset's")
    arguments.add_argument("--turn", type=int, default=10)
    arguments.add_argument("--precision", default="auto", choices=["auto", "fp32", "bf16"])
    given = arguments.parse_args()
    overrides = [f"training.precision={given.precision}", "training.validate_every=1000000"]
    overrides += [] if given.steps is None else [f"training.max_steps={given.steps}"]
    recipe = api.read_recipe(given.preset, data=given.data, overrides=overrides)
    assert isinstance(recipe, LanguageModelRecipe)
    listener = InTurns(PlainLoop(recipe, given.data.read_text(encoding="utf-8")), given.turn)
    with tempfile.TemporaryDirectory() as folder:
        training = api.train(
            given.preset,
            data=given.data,
            overrides=overrides,
            run=Path(folder) / "run",
            listeners=[listener],
            check=False,
        )
        report = api.evaluate_language_model(training.run)
    turns = listener.turns[1:] or listener.turns  # the first one warms up
    tokens = recipe.training.tokens_per_batch * given.turn
    own, plain = (statistics.median(column) for column in zip(*turns, strict=True))
    ratios = [theirs / ours for ours, theirs in turns]
    print(f"{given.preset}, {training.outcome.step:,} steps, {torch.get_num_threads()} threads")
    print(f"validation loss: {report['nll'].value:.4f} nats a character")
    print(f"gnomon: {tokens / own:,.0f} tokens/s, plain eager loop: {tokens / plain:,.0f}")
    print(
        f"ratio: {statistics.median(ratios):.2f} (median of {len(ratios)} turns, "
        f"{min(ratios):.2f} to {max(ratios):.2f})"
    )


if __name__ == "__main__":
    main()
