"""Decode the batches of a JSON file with gnomon's search: `python decode_gnomon.py work result`.

See `benchmarks/decoding_speed.py`.
"""

import json
import sys
import time
from pathlib import Path

import torch

from gnomon.decoding import EncoderDecoderScorer, SearchConfig, beam_search, greedy_search
from gnomon.model import (
    AttentionConfig,
    FeedForwardConfig,
    NormConfig,
    Transformer,
    TransformerConfig,
)

PAD, UNK, BOS, EOS = range(4)


def main() -> None:
    work = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    torch.set_num_threads(work["num_threads"])
    torch.manual_seed(1)
    model = build(work["sizes"])
    seconds = []
    for job in work["jobs"]:
        rows, steps = job["source"], job["steps"]
        longest = max(map(len, rows))
        source = torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])
        config = SearchConfig(beam=job["beam"], alpha=1.0, min_length=steps)
        search = greedy_search if job["beam"] == 1 else beam_search
        started = time.perf_counter()
        scorer = EncoderDecoderScorer(model, source)
        limits = [steps] * len(rows)
        search(scorer, config, pad_id=PAD, bos_id=BOS, eos_id=EOS, max_lengths=limits)
        seconds.append(time.perf_counter() - started)
    Path(sys.argv[2]).write_text(json.dumps(seconds), encoding="utf-8")


def build(sizes: dict) -> Transformer:
    config = TransformerConfig(
        vocab_size=sizes["vocab_size"],
        d_model=sizes["d_model"],
        num_encoder_layers=sizes["num_layers"],
        num_decoder_layers=sizes["num_layers"],
        tie="all",
        attention=AttentionConfig(
            num_heads=sizes["num_heads"], bias_query_key=True, bias_value=True, bias_out=True
        ),
        feedforward=FeedForwardConfig(size=sizes["feedforward"]),
        norm=NormConfig(placement="pre"),
    )
    return Transformer(config).eval()


if __name__ == "__main__":
    main()
