"""gnomon itself: `gnomon train recipe.toml --run DIR`, in the environment that runs this script.

Its metrics file counts target tokens as the peers do: padding not, end of sentence counted.
"""

import json
import re
import sys
from pathlib import Path

from peers.corpus import Corpus
from peers.setting import REPORT_EVERY, Setting
from peers.window import Line, Report

BOTH_SIDES = 1.8
"""gnomon's budget counts padded source plus target tokens, the peers' those of the longer side.

With twice their number gnomon, which pads less, would train a tenth more real tokens per update
than eole. With this factor both train the same; the table shows it.
"""

LINE = re.compile(r"^step (?P<update>\d+) epoch")

RECIPE = """\
name = "speed"

[data]
source = {source}
target = {target}
holdout = 0

[tokenizer]
kind = "bpe"
vocab_size = {setting.vocab_size}

[model]
d_model = {setting.d_model}
num_encoder_layers = {setting.num_layers}
num_decoder_layers = {setting.num_layers}
dropout = {setting.dropout}
tie = "all"
attention = {{ num_heads = {setting.num_heads}, dropout = {setting.dropout}, \
bias_query_key = true, bias_value = true, bias_out = true }}
feedforward = {{ size = {setting.feedforward}, dropout = {setting.dropout} }}
norm = {{ placement = "pre" }}

[objective]
label_smoothing = {setting.label_smoothing}

[optimizer]
betas = [0.9, {setting.beta2}]
clip_norm = {setting.clip_norm}

[schedule]
kind = "inverse_sqrt"
peak = {setting.learning_rate}
warmup_steps = 4000

[training]
max_steps = {setting.num_updates}
tokens_per_batch = {tokens_per_batch}
precision = "{precision}"
device = "cpu"
threads = {setting.num_threads}
seed = {setting.seed}
log_every = {report_every}
checkpoint_every = 1000000
"""


class Gnomon:
    """gnomon at one precision, "fp32" or "bf16"."""

    def __init__(self, precision: str) -> None:
        self.precision = precision
        self.name = f"gnomon {precision}"

    def install(self, environments: Path) -> None:
        """Nothing to do: this script runs in gnomon's own environment."""

    def prepare(self, corpus: Corpus, setting: Setting, folder: Path) -> list[str]:
        """Write the recipe into `folder`; the command that trains it."""
        recipe = RECIPE.format(
            # JSON's strings are TOML's basic strings.
            source=json.dumps(str(corpus.folder / "text.source")),
            target=json.dumps(str(corpus.folder / "text.target")),
            setting=setting,
            tokens_per_batch=round(BOTH_SIDES * setting.batch_tokens),
            precision=self.precision,
            report_every=REPORT_EVERY,
        )
        (folder / "recipe.toml").write_text(recipe, encoding="utf-8")
        run = folder / "run"
        return [sys.executable, "-m", "gnomon", "train", "recipe.toml", "--run", str(run)]

    def reports(self, lines: list[Line], folder: Path) -> list[Report]:
        arrived = {int(m["update"]): line.seconds for line in lines if (m := LINE.match(line.text))}
        reports, before = [], 0
        for text in (folder / "run" / "metrics.jsonl").read_text(encoding="utf-8").splitlines():
            record = json.loads(text)
            if record["kind"] == "train" and record["step"] in arrived:
                tokens = record["num_tokens"]  # since the first update
                reports.append(Report(arrived[record["step"]], record["step"], tokens - before))
                before = tokens
        return reports
