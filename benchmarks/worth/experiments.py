"""The trainings to compare: one recipe, and what each experiment changes in it."""

from __future__ import annotations

from dataclasses import dataclass, field

RECIPE = """
[tokenizer]
vocab_size = 4000
[model]
d_model = 128
num_encoder_layers = 2
num_decoder_layers = 2
dropout = 0.2
tie = "all"
attention.num_heads = 4
feedforward.size = 512
norm.placement = "pre"
[schedule]
kind = "cosine"
peak = 4e-3
warmup_steps = {warmup}
[optimizer]
betas = [0.9, 0.98]
clip_norm = 1.0
[evaluation]
validation_lines = 0
[training]
tokens_per_batch = {tokens}
max_steps = {steps}
validate_every = {every}
checkpoint_every = {every}
keep_last = 8
threads = 1
[data]
valid_source = "{valid_source}"
valid_target = "{valid_target}"
"""


@dataclass(frozen=True, kw_only=True)
class Source:
    """One text of a training: a name of `texts.write_texts`, or of pairs made from it."""

    text: str
    tags: tuple[str, ...] = ()
    weight: float = 1.0

    def toml(self, folder: str) -> str:
        tags = ", ".join(f'"{tag}"' for tag in self.tags)
        lines = ["[[data.sources]]", f'pairs = "{folder}/{self.text}.tsv"']
        lines += [f"tags = [{tags}]"] if tags else []
        lines += [f"weight = {self.weight}"] if self.weight != 1 else []
        return "\n".join(lines) + "\n"


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """`tags` are put in front of what is translated; `back` makes `text` by the reverse model."""

    settings: tuple[str, ...] = ()
    sources: tuple[Source, ...] = (Source(text="all"),)
    tags: tuple[str, ...] = ()
    back: dict[str, object] | None = field(default=None)


ALL, HALF = Source(text="all"), Source(text="half")
SEARCHED: dict[str, object] = {"beam": 4}
SAMPLED: dict[str, object] = {"sample": True, "seed": 1}

EXPERIMENTS = {
    "baseline": Experiment(),
    "another seed": Experiment(settings=("training.seed=2",)),
    "r-drop 5": Experiment(settings=("objective.r_drop=5.0",)),
    "ema 0.99": Experiment(settings=("averaging.kind='ema'", "averaging.decay=0.99")),
    "bpe-dropout 0.1": Experiment(settings=("tokenizer.bpe_dropout=0.1", "data.variants=8")),
    "layer drop 0.1": Experiment(settings=("model.layer_drop=0.1",)),
    "3+1 layers": Experiment(settings=("model.num_encoder_layers=3", "model.num_decoder_layers=1")),
    "dirty": Experiment(sources=(Source(text="dirty"),)),
    "dirty, cleaned": Experiment(
        sources=(Source(text="dirty"),),
        settings=(
            "cleaning.identical_sides='drop'",
            "cleaning.duplicate_pair='drop'",
            "cleaning.length_ratio='drop'",
        ),
    ),
    "half": Experiment(sources=(HALF,)),
    "reverse": Experiment(sources=(Source(text="reverse"),)),
    "half + back, searched": Experiment(sources=(HALF, Source(text="searched")), back=SEARCHED),
    "half + back, searched, tagged": Experiment(
        sources=(HALF, Source(text="searched", tags=("<bt>",))), back=SEARCHED
    ),
    "half + back, sampled": Experiment(sources=(HALF, Source(text="sampled")), back=SAMPLED),
    "half + back, sampled, tagged": Experiment(
        sources=(HALF, Source(text="sampled", tags=("<bt>",))), back=SAMPLED
    ),
    "half + other domain": Experiment(sources=(HALF, Source(text="other"))),
    "half + other domain, tagged": Experiment(
        sources=(Source(text="half", tags=("<a>",)), Source(text="other", tags=("<b>",))),
        tags=("<a>",),
    ),
    "half, weight 2, + other domain": Experiment(
        sources=(Source(text="half", weight=2.0), Source(text="other"))
    ),
}
