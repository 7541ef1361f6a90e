"""What is measured: each section gives rows as it has them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from benchmarks.gpu.step import SIZES, Cost, Size, build, cost, measured, now
from torch.nn.attention import SDPBackend, sdpa_kernel

from gnomon.decoding import EncoderDecoderScorer, SearchConfig, beam_search, greedy_search
from gnomon.errors import GnomonError
from gnomon.model.attend import use_backend
from gnomon.training import MemoryConfig, utilisation
from gnomon.training.utilisation import matmul_ceiling

PAD, BOS, EOS = 0, 2, 3


@dataclass(frozen=True)
class Row:
    section: str
    what: str
    tokens_per_second: float | None = None
    utilisation: float | None = None
    peak_gb: float | None = None
    note: str = ""


def ceiling(name: str, device: str) -> Iterator[Row]:
    """The fastest matrix products: what MFU is a share of."""
    for format_ in ("fp32", "bf16", "fp16"):
        rate = matmul_ceiling(torch.device(device), format_)
        yield Row("ceiling", format_, note=f"{rate / 1e12:,.2f} TFLOP/s")
    with tf32():
        rate = matmul_ceiling(torch.device(device), "fp32")
        yield Row("ceiling", "tf32", note=f"{rate / 1e12:,.2f} TFLOP/s")


def formats(name: str, device: str) -> Iterator[Row]:
    size = SIZES[name]
    yield row("formats", "fp32", size, cost(size, device, precision="fp32"))
    yield row("formats", "tf32", size, cost(size, device, precision="fp32", around=tf32))
    for format_ in ("bf16", "bf16-master", "fp16"):
        yield row("formats", format_, size, cost(size, device, precision=format_))
    if name == "base":
        big = SIZES["big"]
        yield row("formats", "bf16, big", big, cost(big, device, precision="bf16"))


def compiled(name: str, device: str) -> Iterator[Row]:
    """Layers compiled by torch; the steps that compile are not timed."""
    size = SIZES[name]
    for compile_ in (False, True):
        found = cost(size, device, precision="bf16", compile=compile_)
        yield row("compile", "on" if compile_ else "off", size, found)


def attention(name: str, device: str) -> Iterator[Row]:
    """A language model, whose attention has no mask but the look-ahead one."""
    size = SIZES[name]
    long = 2048 if name != "tiny" else 2 * size.length
    rows = max(1, size.rows * size.length // long)
    fused = {
        "plain products": lambda: use_backend("reference"),
        "fused, without flash": lambda: sdpa_kernel(
            [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
        ),
        "flash": lambda: sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]),
    }
    for what, around in fused.items():
        found = cost(
            size,
            device,
            family="decoder",
            rows=rows,
            length=long,
            precision="bf16",
            around=around,
        )
        yield row("attention", f"{what}, {long:,} tokens", replace(size, rows=rows), found)


def memory(name: str, device: str) -> Iterator[Row]:
    size = SIZES[name]
    ways = {
        "kept": MemoryConfig(),
        "recompute selective": MemoryConfig(recompute="selective"),
        "recompute full": MemoryConfig(recompute="full"),
        "recompute full, every 2nd": MemoryConfig(recompute="full", every=2),
        "int8": MemoryConfig(activations="int8"),
    }
    if device == "cuda":
        ways["host"] = MemoryConfig(activations="host")
    for what, way in ways.items():
        yield row("memory", what, size, cost(size, device, precision="bf16", memory=way))


def fp8(name: str, device: str) -> Iterator[Row]:
    """Pays, if at all, where matrices are large."""
    size = SIZES["big" if name == "base" else name]
    for format_, compile_ in (("bf16", False), ("fp8", False), ("fp8", True)):
        what = f"{format_}, compiled" if compile_ else format_
        try:
            found = cost(size, device, precision=format_, compile=compile_)
        except GnomonError as error:  # the device or torchao is missing
            yield Row("fp8", what, note=f"{error.rule}: {error.seen}")
        else:
            yield row("fp8", what, size, found)


def decoding(name: str, device: str) -> Iterator[Row]:
    """Every search takes all its steps: no end is allowed before."""
    size = SIZES[name]
    steps = min(64, 2 * size.length)
    for dtype in (torch.float32, torch.bfloat16):
        with measured(device) as peak:
            model = build(size).eval().to(device, dtype)
            for rows, beam in ((1, 1), (size.rows, 1), (max(1, size.rows // 4), 4)):
                source = torch.randint(4, size.vocab, (rows, size.length // 4 + 1), device=device)
                config = SearchConfig(beam=beam, min_length=steps)
                search: Any = greedy_search if beam == 1 else beam_search
                seconds = []
                for _ in range(3):
                    started = now()
                    search(
                        EncoderDecoderScorer(model, source),
                        config,
                        pad_id=PAD,
                        bos_id=BOS,
                        eos_id=EOS,
                        max_lengths=[steps] * rows,
                    )
                    seconds.append(now() - started)
                format_ = str(dtype).removeprefix("torch.")
                what = f"{format_}, {rows} rows, beam {beam}"
                yield Row("decoding", what, rows * steps / min(seconds[1:]), peak_gb=peak())


SECTIONS: dict[str, Callable[[str, str], Iterator[Row]]] = {
    "ceiling": ceiling,
    "formats": formats,
    "memory": memory,
    "attention": attention,
    "compile": compiled,
    "decoding": decoding,
    "fp8": fp8,
}
BUDGETS = {
    "ceiling": 45.0,
    "formats": 130.0,
    "memory": 120.0,
    "attention": 90.0,
    "compile": 120.0,
    "decoding": 90.0,
    "fp8": 90.0,
}
"""Seconds a section may take; all together end by --minutes."""


def row(section: str, what: str, size: Size, found: Cost) -> Row:
    smaller = found.rows < size.rows
    note = f"{found.rows} rows of a batch, as {size.rows} did not fit" if smaller else ""
    return Row(section, what, found.tokens_per_second, found.utilisation, found.peak_gb, note)


@contextmanager
def tf32() -> Iterator[None]:
    """Matrix products of fp32 numbers with ten bits of their fractions, where the GPU has it."""
    torch.set_float32_matmul_precision("high")
    utilisation._ceiling.cache_clear()  # fp32 has another one now
    try:
        yield
    finally:
        torch.set_float32_matmul_precision("highest")
        utilisation._ceiling.cache_clear()
