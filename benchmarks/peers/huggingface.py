"""Hugging Face's `Seq2SeqTrainer` on a Marian model from random weights, in its own environment.

There is no command to train a new translator with: `huggingface_train.py` beside this file is the
script that a user would write. Batches are of a number of sentences, of about one source length
(`group_by_length`), which pad least; the number is that which gives as many target tokens as the
others train on. The optimizer is the fused one. Attention is "eager": with dropout on its weights
"sdpa" falls back to a composition of the same steps on CPUs.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from peers.corpus import Corpus
from peers.environment import ensure_environment
from peers.setting import REPORT_EVERY, Setting
from peers.window import Line, Report

REQUIREMENTS = ["transformers==5.24.0", "accelerate==1.15.0"]

FILLED = 0.83
"""Real target tokens of gnomon's and eole's updates, as a share of the padded budget."""

LINE = re.compile(r"^update (?P<update>\d+): (?P<tokens>\d+) target tokens")


class HuggingFace:
    """The trainer at one precision, "fp32" or "bf16" (torch's autocast)."""

    def __init__(self, precision: str) -> None:
        self.precision = precision
        self.name = f"Hugging Face 5.24 {precision}"

    def install(self, environments: Path) -> None:
        self.binaries = ensure_environment(environments / "huggingface", REQUIREMENTS)

    def prepare(self, corpus: Corpus, setting: Setting, folder: Path) -> list[str]:
        """Write what the script reads into `folder`; the command that runs it."""
        sentences = FILLED * setting.batch_tokens * corpus.num_pairs / corpus.target_tokens
        options = {
            "source": str(corpus.folder / "train.source"),
            "target": str(corpus.folder / "train.target"),
            "output": str(folder / "model"),
            "report_every": REPORT_EVERY,
            "model": {
                "vocab_size": setting.vocab_size,
                "d_model": setting.d_model,
                "encoder_layers": setting.num_layers,
                "decoder_layers": setting.num_layers,
                "encoder_ffn_dim": setting.feedforward,
                "decoder_ffn_dim": setting.feedforward,
                "encoder_attention_heads": setting.num_heads,
                "decoder_attention_heads": setting.num_heads,
                "dropout": setting.dropout,
                "attention_dropout": setting.dropout,
                "activation_dropout": setting.dropout,
                "activation_function": "relu",
                "scale_embedding": True,
                "use_cache": False,
                "attn_implementation": "eager",
            },
            "training": {
                "per_device_train_batch_size": round(sentences),
                "max_steps": setting.num_updates,
                "learning_rate": setting.learning_rate,
                "lr_scheduler_type": "inverse_sqrt",
                "warmup_steps": 4000,
                "adam_beta2": setting.beta2,
                "max_grad_norm": setting.clip_norm,
                "label_smoothing_factor": setting.label_smoothing,
                "bf16": self.precision == "bf16",
                "seed": setting.seed,
                "optim": "adamw_torch_fused",
                "train_sampling_strategy": "group_by_length",
                "use_cpu": True,
                "dataloader_pin_memory": False,
                "save_strategy": "no",
                "logging_strategy": "no",
                "report_to": [],
                "disable_tqdm": True,
            },
        }
        path = folder / "options.json"
        path.write_text(json.dumps(options, indent=1), encoding="utf-8")
        script = Path(__file__).with_name("huggingface_train.py")
        return [str(self.binaries / "python"), str(script), str(path)]

    def reports(self, lines: list[Line], folder: Path) -> list[Report]:
        found = [(line.seconds, match) for line in lines if (match := LINE.match(line.text))]
        return [Report(s, int(m["update"]), float(m["tokens"])) for s, m in found]
