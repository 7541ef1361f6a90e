"""JoeyNMT 2.3: `python -m joeynmt train config.yaml`.

Its "Tokens per Sec" counts target symbols that are not padding, the end symbol included and the
start symbol not (`Batch.ntokens`: the mask of `trg[:, 1:]`), over the time since the line before.

It fills a batch with sentences in random order until the padded tokens of the longer side reach
the budget ("no bucketing implemented"), so a batch holds fewer real tokens than eole's at the same
budget. One dropout value serves residual branches, feed-forward and attention weights alike.
"""

import json
import re
from pathlib import Path

from peers.corpus import Corpus
from peers.environment import ensure_environment
from peers.setting import REPORT_EVERY, Setting
from peers.window import Line, Report, reports_from_rates

# importlib_metadata is imported but not declared; sentencepiece (unused here) is held at the
# release that JoeyNMT 2.3 came out with.
REQUIREMENTS = ["joeynmt==2.3.0", "importlib_metadata", "sentencepiece==0.2.0"]

LINE = re.compile(r"Step:\s*(?P<update>\d+),.*Tokens per Sec:\s*(?P<rate>\d+)")


class JoeyNMT:
    """JoeyNMT, which trains on a CPU in fp32 only (it switches its half precision off there)."""

    name = "JoeyNMT 2.3 fp32"

    def install(self, environments: Path) -> None:
        self.binaries = ensure_environment(environments / "joeynmt", REQUIREMENTS)

    def prepare(self, corpus: Corpus, setting: Setting, folder: Path) -> list[str]:
        """Write the configuration into `folder`; the command that trains with it."""
        config = folder / "config.yaml"
        config.write_text(json.dumps(_config(corpus, setting, folder), indent=1), encoding="utf-8")
        return [str(self.binaries / "python"), "-m", "joeynmt", "train", str(config), "--skip-test"]

    def reports(self, lines: list[Line], folder: Path) -> list[Report]:
        found = [(line.seconds, match) for line in lines if (match := LINE.search(line.text))]
        return reports_from_rates([(s, int(m["update"]), float(m["rate"])) for s, m in found])


def _config(corpus: Corpus, setting: Setting, folder: Path) -> dict:
    """JSON is YAML too, so no YAML library is needed to write it."""
    vocabulary = str(corpus.folder / "vocabulary.txt")
    side = {"level": "word", "voc_file": vocabulary, "max_length": -1}
    layers = {
        "type": "transformer",
        "num_layers": setting.num_layers,
        "num_heads": setting.num_heads,
        "hidden_size": setting.d_model,
        "ff_size": setting.feedforward,
        "dropout": setting.dropout,
        "layer_norm": "pre",
        "embeddings": {
            "embedding_dim": setting.d_model,
            "scale": True,
            "dropout": setting.dropout,
        },
    }
    return {
        "name": "speed",
        "joeynmt_version": "2.3.0",
        "model_dir": str(folder / "model"),
        "use_cuda": False,
        "random_seed": setting.seed,
        "data": {
            "train": str(corpus.folder / "train"),
            "dev": str(corpus.folder / "valid"),
            "dataset_type": "plain",
            "src": {"lang": "source", **side},
            "trg": {"lang": "target", **side},
        },
        "training": {
            "optimizer": "adam",
            "adam_betas": [0.9, setting.beta2],
            "learning_rate": setting.learning_rate,
            "learning_rate_min": 0.0,
            "scheduling": "warmupinversesquareroot",  # it refuses to start without a schedule
            "learning_rate_warmup": 4000,
            "clip_grad_norm": setting.clip_norm,
            "label_smoothing": setting.label_smoothing,
            "normalization": "tokens",
            "batch_type": "token",
            "batch_size": setting.batch_tokens,
            "epochs": 1000,
            "updates": setting.num_updates,
            "logging_freq": REPORT_EVERY,
            "validation_freq": 1000 * REPORT_EVERY,
            "early_stopping_metric": "loss",
        },
        "testing": {"batch_size": 64},
        "model": {
            "initializer": "xavier_uniform",
            "tied_embeddings": True,
            "tied_softmax": True,
            "encoder": layers,
            "decoder": layers,
        },
    }
