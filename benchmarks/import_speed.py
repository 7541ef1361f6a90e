"""How long `gnomon import` of a BERT of 110 million parameters takes, and its memory.

    python -m benchmarks.import_speed [--folder FOLDER]

Writes a random BERT-base (fp32, 438 MB) unless a folder is named, imports it in a process of its
own, and prints seconds (start of Python and torch apart) and peak memory above that of the bare
start, as a share of the weights' size.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import save_file

CHILD = """
import sys, time
import torch, gnomon.api
def peak():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) * 1024
bare, start, worked = peak(), time.perf_counter(), time.process_time()
gnomon.api.import_model(sys.argv[1], sys.argv[2])
print(time.perf_counter() - start, time.process_time() - worked, peak() - bare)
"""
SIZES = {
    "vocab_size": 30522,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
}
SIZES |= {"intermediate_size": 3072, "max_position_embeddings": 512, "type_vocab_size": 2}


def write_bert(folder: Path) -> None:
    D, F = SIZES["hidden_size"], SIZES["intermediate_size"]
    shapes = {
        "embeddings.word_embeddings.weight": (SIZES["vocab_size"], D),
        "embeddings.position_embeddings.weight": (512, D),
        "embeddings.token_type_embeddings.weight": (2, D),
        "embeddings.LayerNorm.weight": (D,),
        "embeddings.LayerNorm.bias": (D,),
        "pooler.dense.weight": (D, D),
        "pooler.dense.bias": (D,),
    }
    for i in range(SIZES["num_hidden_layers"]):
        names = [f"attention.self.{name}" for name in ("query", "key", "value")]
        sizes = dict.fromkeys([*names, "attention.output.dense"], (D, D))
        sizes |= {"intermediate.dense": (F, D), "output.dense": (D, F)}
        for name, size in sizes.items():
            shapes[f"encoder.layer.{i}.{name}.weight"] = size
            shapes[f"encoder.layer.{i}.{name}.bias"] = size[:1]
        for name in ("attention.output.LayerNorm", "output.LayerNorm"):
            shapes[f"encoder.layer.{i}.{name}.weight"] = (D,)
            shapes[f"encoder.layer.{i}.{name}.bias"] = (D,)
    torch.manual_seed(0)
    save_file(
        {name: torch.randn(size) for name, size in shapes.items()}, folder / "model.safetensors"
    )
    (folder / "config.json").write_text(json.dumps({"model_type": "bert", **SIZES}))
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(30517))]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = chosen.folder or Path(place) / "bert"
        if chosen.folder is None:
            folder.mkdir()
            write_bert(folder)
        size = (folder / "model.safetensors").stat().st_size
        seconds, worked, peaks = [], [], []
        for number in range(chosen.repeats):
            command = [sys.executable, "-c", CHILD, str(folder), str(Path(place) / f"out{number}")]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            took, processor, peak = done.stdout.split()
            seconds.append(float(took))
            worked.append(float(processor))
            peaks.append(int(peak) / size)
        middle = sorted(seconds)[len(seconds) // 2]
        print(f"weights {size / 1e6:.0f} MB, {len(seconds)} imports")
        print(f"seconds: median {middle:.2f}, from {min(seconds):.2f} to {max(seconds):.2f}")
        print(f"of these on the processor: median {sorted(worked)[len(worked) // 2]:.2f}")
        print(f"peak memory above the bare start: {max(peaks):.2f} of the weights")


if __name__ == "__main__":
    main()
