"""Runs in JoeyNMT's own environment: decode the batches of a JSON file with JoeyNMT's search.

`python decode_joeynmt.py work.json result.json`; see `benchmarks/decoding_speed.py`.
"""

import json
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import torch
from joeynmt.batch import Batch
from joeynmt.model import build_model
from joeynmt.search import search
from joeynmt.vocabulary import Vocabulary

UNK, PAD, BOS, EOS = range(4)  # the order that JoeyNMT insists on


def main() -> None:
    work = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    torch.set_num_threads(work["num_threads"])
    torch.manual_seed(1)
    model = build(work["sizes"])
    seconds = []
    for job in work["jobs"]:
        batch = as_batch(job["source"])
        started = time.perf_counter()
        search(
            model=model,
            batch=batch,
            max_output_length=job["steps"],
            min_output_length=job["steps"],
            beam_size=job["beam"],
            beam_alpha=1.0,
        )
        seconds.append(time.perf_counter() - started)
    Path(sys.argv[2]).write_text(json.dumps(seconds), encoding="utf-8")


def build(sizes: dict) -> torch.nn.Module:
    layers = {
        "type": "transformer",
        "num_layers": sizes["num_layers"],
        "num_heads": sizes["num_heads"],
        "hidden_size": sizes["d_model"],
        "ff_size": sizes["feedforward"],
        "dropout": 0.0,
        "layer_norm": "pre",
        "embeddings": {"embedding_dim": sizes["d_model"], "scale": True},
    }
    special = SimpleNamespace(
        unk_token="<unk>", pad_token="<pad>", bos_token="<s>", eos_token="</s>",
        sep_token=None, unk_id=UNK, pad_id=PAD, bos_id=BOS, eos_id=EOS, sep_id=None, lang_tags=[],
    )  # fmt: skip
    words = [f"w{number}" for number in range(sizes["vocab_size"] - 4)]
    vocabulary = Vocabulary(words, special)
    assert len(vocabulary) == sizes["vocab_size"]
    model = build_model(
        {
            "initializer": "xavier_uniform",
            "tied_embeddings": True,
            "tied_softmax": True,
            "encoder": layers,
            "decoder": layers,
        },
        vocabulary,
        vocabulary,
    )
    return model.eval()


def as_batch(rows: list[list[int]]) -> Batch:
    longest = max(map(len, rows))
    source = torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])
    return Batch(
        src=source,
        src_length=torch.tensor([len(row) for row in rows]),
        src_prompt_mask=None,
        trg=None,
        trg_prompt_mask=None,
        indices=torch.arange(len(rows)),
        device=torch.device("cpu"),
        pad_index=PAD,
        eos_index=EOS,
        is_train=False,
    )


if __name__ == "__main__":
    main()
