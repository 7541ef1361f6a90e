"""Shows that a seeded fault acts: what differs between a clean patient and its twin.

Without this, a fault that changes nothing (a patched method that is no longer called, a value that
was so before) would be counted as missed, or as found by luck.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from benchmarks.faults.host import Host, norms_of
from benchmarks.faults.hosts.bare import BareHost
from benchmarks.faults.hosts.text import LONGEST, PAD
from torch import Tensor, nn

from gnomon.doctor.patient import Patient

# Relative to the larger value: far above what another order of the same sums can change.
TOLERANCE = 1e-4
HALF_TOLERANCE = 5e-2
HALF = (torch.float16, torch.bfloat16)
NUM_TOKENS = 6


def differences(clean: Facts, faulty: Facts, *, all_of_them: bool = False) -> list[str]:
    """Names of what differs; empty when the fault does nothing.

    Args:
        clean: facts of the clean patient, which may serve for several faults.
        all_of_them: go on after the first difference.
    """
    found = []
    for name in clean.names:
        if not same(clean[name], faulty[name]):
            found.append(name)
            if not all_of_them:
                break
    return found


class Facts:
    """What can be seen of a patient, by name; each made when it is first asked for."""

    def __init__(self, patient: Patient, host: Host | BareHost) -> None:
        bare = isinstance(host, BareHost)
        self._makers = bare_makers(patient) if bare else makers(patient, host)
        self._made: dict[str, Any] = {}

    @property
    def names(self) -> list[str]:
        """In the order of their cost; the one that changes the weights is last."""
        return list(self._makers)

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = attempt(self._makers[name])
        return self._made[name]


def same(a: Any, b: Any) -> bool:
    """Equal up to rounding; tensors, or nests of them."""
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        if a.shape != b.shape:
            return False
        if not (a.is_floating_point() and b.is_floating_point()):
            return torch.equal(a, b)
        tolerance = HALF_TOLERANCE if a.dtype in HALF else TOLERANCE
        a, b = a.detach().double(), b.detach().double()
        finite = a.isfinite()
        if not torch.equal(finite, b.isfinite()):
            return False
        a, b = a[finite], b[finite]
        if a.numel() == 0:
            return True
        size = float(torch.maximum(a.abs().max(), b.abs().max()))
        return float((a - b).abs().max()) <= tolerance * size
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        # Names may change when a module is wrapped; values count, in order.
        return len(a) == len(b) and all(
            same(x, y) for x, y in zip(a.values(), b.values(), strict=True)
        )
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return bool(a == b)


def attempt(make: Callable[[], Any]) -> Any:
    """`make()` under a seed; an error is a result too."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        try:
            return make()
        except Exception as error:
            return f"{type(error).__name__}: {error}"[:80]


def makers(patient: Patient, host: Host) -> dict[str, Callable[[], Any]]:
    """Everything a fault could change, by name."""
    module, batch = patient.module, patient.batch
    assert module is not None and isinstance(batch, dict)
    half = {
        f"output ({str(dtype)[6:]})": lambda d=dtype: output(
            copy.deepcopy(module).to(d), batch, host
        )
        for dtype in HALF
    }
    every = {
        f"output ({name})": lambda v=variant: output(module, v, host)
        for name, variant in variants(batch, host).items()
    }
    if "zero-row" in host.traits:
        every["output (empty row)"] = lambda: empty_row(module, batch, host)
    return {
        **every,
        "sharing": lambda: sharing(module),
        "declared": lambda: declared(patient),
        "optimizer": lambda: optimizer_groups(patient),
        "schedule": lambda: learning_rates(patient),
        "output (training)": lambda: output(module, batch, host, training=True),
        "output (again)": lambda: [output(module, batch, host) for _ in range(2)],
        "norms of small values": lambda: small_norms(module, host),
        **half,
        "loss and gradients": lambda: gradients(patient),
        "reloaded": lambda: reloaded(patient),
        "folder": lambda: None if patient.folder is None else files(patient.folder),
        "generated": lambda: generated(patient),
        "step": lambda: stepped(patient),
    }


def declared(patient: Patient) -> list[Any]:
    """Plain fields, and what the tokenizer makes of the texts."""
    tokenizer = patient.tokenizer
    return [
        patient.clip_norm,
        patient.planned_steps,
        patient.max_length,
        patient.pad_id,
        patient.padding_side,
        None if tokenizer is None else len(tokenizer),
        [] if tokenizer is None else [tokenizer.encode(text) for text in patient.texts],
    ]


def output(
    module: nn.Module, batch: Mapping[str, Tensor], host: Host, training: bool = False
) -> Tensor:
    """Logits, without the labels' influence; padded positions of the output left out."""
    module.train(training)
    with torch.no_grad():
        logits = host.predict(module, batch).logits
    module.eval()
    ids = batch[host.target or host.source]
    real = ids[:, : logits.shape[1]] != PAD
    return logits[real] if real.shape == logits.shape[:2] else logits


def variants(batch: dict[str, Tensor], host: Host) -> dict[str, dict[str, Tensor]]:
    """The batch as it is, alone by row, left-padded, longer."""
    ids = batch[host.source]
    found = {"eval": batch, "one row": {key: value[2:3] for key, value in batch.items()}}
    if host.target:
        narrow = {host.source, host.mask}
    elif "packed" in host.traits:
        return found
    else:
        narrow = set(batch)
    usable = {k: v for k, v in batch.items() if k in narrow}
    shift = (ids == PAD).sum(1)
    rolled = {
        key: torch.stack([row.roll(int(by), -1) for row, by in zip(value, shift, strict=True)])
        for key, value in usable.items()
        if value.dim() == 2
    }
    found["left-padded"] = {**batch, **rolled}
    if not host.target:
        times = LONGEST // ids.shape[1]
        row = {key: value[:1].repeat(1, times) for key, value in batch.items()}
        found["long"] = row
    return found


def empty_row(module: nn.Module, batch: dict[str, Tensor], host: Host) -> Tensor:
    """All logits where the first row is nothing but padding."""
    empty = {key: value.clone() for key, value in batch.items()}
    empty[host.source][0] = PAD
    if host.mask:
        empty[host.mask][0] = 0
    with torch.no_grad():
        return host.predict(module, empty).logits


def small_norms(module: nn.Module, host: Host) -> list[Tensor]:
    """Each norm's output on values near zero, where eps decides."""
    outputs = []
    for norm in norms_of(module, host):
        width = max(p.shape[-1] for p in norm.parameters())
        x = torch.linspace(-1, 1, width).repeat(2, 3, 1)
        outputs += [attempt(lambda n=norm, v=x * size: n(v)) for size in (1e-4, 1e-8)]
    return outputs


def sharing(module: nn.Module) -> list[int]:
    """How often each storage is used, by parameters under all their names."""
    every = [p.data_ptr() for _, p in module.named_parameters(remove_duplicate=False)]
    return sorted(every.count(pointer) for pointer in set(every))


def gradients(patient: Patient) -> list[Tensor | None]:
    """The loss, and each parameter's gradient."""
    assert patient.module is not None and patient.loss is not None
    patient.module.zero_grad()
    loss = patient.loss(patient.module, patient.batch)
    loss.backward()
    found = [loss.detach(), *(p.grad for p in patient.module.parameters())]
    patient.module.zero_grad()
    return found


def optimizer_groups(patient: Patient) -> list[Any]:
    """Hyperparameters of each group and the shapes in it."""
    if patient.optimizer is None:
        return []
    return [
        [
            [tuple(p.shape) for p in group["params"]],
            [(k, v) for k, v in sorted(group.items()) if k not in ("params", "lr")],
        ]
        for group in patient.optimizer.param_groups
    ] + [[p.requires_grad for p in patient.module.parameters()]]  # type: ignore[union-attr]


def learning_rates(patient: Patient) -> list[float]:
    """Factors or rates at some steps of the whole training."""
    steps = (0, 1, 10, 100, 500, 1000, 1999)
    schedule = patient.schedule
    function = schedule if callable(schedule) else schedule.lr_lambdas[0]
    lr = 1.0 if callable(schedule) else patient.optimizer.defaults["lr"]  # type: ignore[union-attr]
    return [float(function(step)) * lr for step in steps]


def generated(patient: Patient) -> list[Any]:
    """Tokens of several requests: greedy, another one, the first again, one row, beams."""
    if patient.generate is None:
        return []
    assert isinstance(patient.batch, dict) and patient.module is not None
    module, batch = patient.module.eval(), patient.batch
    other = {key: value.flip(0) for key, value in batch.items()}
    one = {key: value[2:3] for key, value in batch.items()}
    found = [patient.generate(module, b, NUM_TOKENS) for b in (batch, other, one)]
    if patient.beam_generate is not None:
        found.append(patient.beam_generate(module, batch, NUM_TOKENS, 3))
        found.append(patient.beam_generate(module, one, NUM_TOKENS, 3))
    return found


def reloaded(patient: Patient) -> list[Any]:
    """The reloaded model's tensors and what it shares."""
    if patient.reload is None:
        return []
    module = patient.reload()
    return [list(module.state_dict().values()), list(module.buffers()), sharing(module)]


def stepped(patient: Patient) -> list[Tensor]:
    """How far two steps over two uneven micro-batches move each weight, and the next rate."""
    assert patient.step is not None and isinstance(patient.batch, dict)
    assert patient.module is not None
    parts = [
        {key: value[rows] for key, value in patient.batch.items()}
        for rows in (slice(0, 1), slice(1, None))
    ]
    before = [parameter.detach().clone() for parameter in patient.module.parameters()]
    for _ in range(2):
        patient.step(parts)
    rate = [] if patient.optimizer is None else [patient.optimizer.param_groups[0]["lr"]]
    after = zip(patient.module.parameters(), before, strict=True)
    return [*(p.detach().double() - b.double() for p, b in after), torch.tensor(rate)]


def files(folder: Path) -> list[str]:
    """Hashes of all files."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return [f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}" for path in paths]


def bare_makers(patient: Patient) -> dict[str, Callable[[], Any]]:
    """Of a corpus its files, of a recipe its text."""
    corpus = patient.corpus or {}
    return {
        "corpus": lambda: [
            hashlib.sha256(corpus[key].read_bytes()).hexdigest() for key in sorted(corpus)
        ],
        "recipe": lambda: repr(patient.recipe),
    }
