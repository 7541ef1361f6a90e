"""eole 0.6: `eole train -config config.yaml`.

Its second "tok/s" counts target symbols that are not padding, the end symbol included and the
start symbol not (`LossCompute._stats`: `tgt[:, 1:]` without padding), over the time since the line
before. Each progress line is the mean of its updates.

It sorts the whole bucket by source and target length before cutting batches of at most the budget
(sentences × longest side), and drops a pair whose source is already in the batch.
"""

import json
import re
from pathlib import Path

from peers.corpus import Corpus
from peers.environment import ensure_environment
from peers.setting import REPORT_EVERY, Setting
from peers.window import Line, Report, reports_from_rates

# aiohttp: imported when the command starts, not declared.
REQUIREMENTS = ["eole>=0.6,<0.7", "aiohttp"]

LINE = re.compile(r"Step\s+(?P<update>\d+)/.*?/\s*(?P<rate>\d+) tok/s;")


class Eole:
    """eole at one compute precision, "fp32" or "bf16" (torch's autocast)."""

    def __init__(self, precision: str) -> None:
        self.precision = precision
        self.name = f"eole 0.6 {precision}"

    def install(self, environments: Path) -> None:
        self.binaries = ensure_environment(environments / "eole", REQUIREMENTS)

    def prepare(self, corpus: Corpus, setting: Setting, folder: Path) -> list[str]:
        """Write the configuration into `folder`; the command that trains with it."""
        config = folder / "config.yaml"
        tree = _config(corpus, setting, folder, self.precision)
        config.write_text(json.dumps(tree, indent=1), encoding="utf-8")
        return [str(self.binaries / "eole"), "train", "-config", str(config)]

    def reports(self, lines: list[Line], folder: Path) -> list[Report]:
        found = [(line.seconds, match) for line in lines if (match := LINE.search(line.text))]
        return reports_from_rates([(s, int(m["update"]), float(m["rate"])) for s, m in found])


def _config(corpus: Corpus, setting: Setting, folder: Path, precision: str) -> dict:
    """JSON is YAML too, so no YAML library is needed to write it."""
    return {
        "seed": setting.seed,
        "share_vocab": True,
        "src_vocab": str(corpus.folder / "vocabulary.txt"),
        "src_vocab_size": setting.vocab_size,
        "tgt_vocab_size": setting.vocab_size,
        "vocab_size_multiple": 1,
        "report_every": REPORT_EVERY,
        "transforms": [],
        "data": {
            "corpus": {
                "path_src": str(corpus.folder / "train.source"),
                "path_tgt": str(corpus.folder / "train.target"),
                "transforms": [],
                "weight": 1,
            }
        },
        "training": {
            "model_path": str(folder / "model"),
            "world_size": 1,
            "gpu_ranks": [],
            "num_workers": 0,
            "bucket_size": corpus.num_pairs,
            "batch_type": "tokens",
            "batch_size": setting.batch_tokens,
            "normalization": "tokens",
            "accum_count": [1],
            "optim": "adam",
            "adam_beta2": setting.beta2,
            "learning_rate": setting.learning_rate,
            "warmup_steps": 4000,
            "decay_method": "rsqrt",
            "max_grad_norm": setting.clip_norm,
            "label_smoothing": setting.label_smoothing,
            "dropout": [setting.dropout],
            "attention_dropout": [setting.dropout],
            "param_init_method": "xavier_uniform",
            "compute_dtype": precision,
            "train_steps": setting.num_updates,
            "valid_steps": 1_000_000,
            "save_checkpoint_steps": 1_000_000,
            "log_attention_entropy": False,
        },
        "model": {
            "architecture": "transformer",
            "layers": setting.num_layers,
            "heads": setting.num_heads,
            "hidden_size": setting.d_model,
            "word_vec_size": setting.d_model,
            "transformer_ff": setting.feedforward,
            "share_embeddings": True,
            "share_decoder_embeddings": True,
            "add_qkvbias": True,
            "add_ffnbias": True,
            "position_encoding_type": "SinusoidalInterleaved",
        },
    }
