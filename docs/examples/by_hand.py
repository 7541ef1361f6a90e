"""A Transformer written by hand after the paper, in the way that many teach it.

It works, and it is not quite the paper's: `gnomon doctor by_hand.py:patient --verbose` says where,
and what follows from each difference.
"""

import math

import torch
from torch import Tensor, nn

VOCAB_SIZE, D_MODEL, NUM_HEADS, D_FF, NUM_LAYERS, PAD = 120, 64, 4, 128, 2, 0


class Norm(nn.Module):
    def __init__(self, eps: float = 1e-6) -> None:
        super().__init__()
        self.gain, self.shift = (
            nn.Parameter(torch.ones(D_MODEL)),
            nn.Parameter(torch.zeros(D_MODEL)),
        )
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        centred = x - x.mean(-1, keepdim=True)
        return self.gain * centred / (x.std(-1, keepdim=True) + self.eps) + self.shift


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.out = (nn.Linear(D_MODEL, D_MODEL) for _ in range(4))
        self.dropout = nn.Dropout(0.1)
        self.weights: Tensor | None = None  # to draw them later

    def heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (NUM_HEADS, -1)).transpose(1, 2)

    def forward(self, asks: Tensor, told: Tensor, mask: Tensor) -> Tensor:
        query, key = self.heads(self.query(asks)), self.heads(self.key(told))
        scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))
        scores = scores.masked_fill(mask.unsqueeze(1) == 0, -1e9)
        self.weights = scores.softmax(-1)
        context = self.dropout(self.weights) @ self.heads(self.value(told))
        return self.out(context.transpose(1, 2).flatten(2))


class Sublayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.dropout = Norm(), nn.Dropout(0.1)

    def forward(self, x: Tensor, sublayer) -> Tensor:  # type: ignore[no-untyped-def]
        return x + self.dropout(sublayer(self.norm(x)))


class Layer(nn.Module):
    def __init__(self, reads_source: bool) -> None:
        super().__init__()
        self.attention = Attention()
        self.cross = Attention() if reads_source else None
        self.feed_forward = nn.Sequential(
            nn.Linear(D_MODEL, D_FF), nn.ReLU(), nn.Dropout(0.1), nn.Linear(D_FF, D_MODEL)
        )
        self.sublayers = nn.ModuleList(Sublayer() for _ in range(3 if reads_source else 2))

    def forward(self, x: Tensor, mask: Tensor, source: Tensor | None, told: Tensor) -> Tensor:
        x = self.sublayers[0](x, lambda x: self.attention(x, x, mask))
        if self.cross is not None:
            x = self.sublayers[1](x, lambda x: self.cross(x, source, told))
        return self.sublayers[-1](x, self.feed_forward)


class Stack(nn.Module):
    def __init__(self, reads_source: bool) -> None:
        super().__init__()
        self.table = nn.Embedding(VOCAB_SIZE, D_MODEL)
        self.layers = nn.ModuleList(Layer(reads_source) for _ in range(NUM_LAYERS))
        self.norm, self.dropout = Norm(), nn.Dropout(0.1)
        angles = torch.arange(5000)[:, None] / 10000 ** (torch.arange(0, D_MODEL, 2) / D_MODEL)
        self.register_buffer("positions", torch.stack([angles.sin(), angles.cos()], -1).flatten(1))

    def forward(self, ids: Tensor, mask: Tensor, source=None, told=None) -> Tensor:  # type: ignore[no-untyped-def]
        x = self.table(ids) * math.sqrt(D_MODEL) + self.positions[: ids.size(1)]
        x = self.dropout(x)
        for layer in self.layers:
            x = layer(x, mask, source, told)
        return self.norm(x)


class ByHand(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.decoder = Stack(False), Stack(True)
        self.generator = nn.Linear(D_MODEL, VOCAB_SIZE)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        told = (src != PAD)[:, None, :]
        look_back = torch.ones(tgt.size(1), tgt.size(1), dtype=torch.bool).tril()
        source = self.encoder(src, told)
        output = self.decoder(tgt, (tgt != PAD)[:, None, :] & look_back, source, told)
        return self.generator(output)


def loss(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    """The next token's cross-entropy."""
    logits = model(batch["src"], batch["tgt"])[:, :-1]
    return nn.functional.cross_entropy(
        logits.flatten(0, 1), batch["tgt"][:, 1:].flatten(), ignore_index=PAD
    )


def patient() -> dict[str, object]:
    """What the doctor is handed."""
    torch.manual_seed(0)
    model = ByHand()
    src, tgt = torch.randint(3, VOCAB_SIZE, (4, 12)), torch.randint(3, VOCAB_SIZE, (4, 10))
    src[1, 9:], tgt[2, 7:] = PAD, PAD
    return {
        "module": model,
        "batch": {"src": src, "tgt": tgt},
        "loss": loss,
        "optimizer": torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9),
        "schedule": lambda step: D_MODEL**-0.5 * min((step + 1) ** -0.5, (step + 1) / 4000**1.5),
        "planned_steps": 100_000,
        "pad_id": PAD,
    }
