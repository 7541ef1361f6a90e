"""What classifiers reach on four public sets, over seeds, beside a plain floor and a BiLSTM.

    python benchmarks/labels.py sst2 DIR --from MINILM          # DIR: train/dev/test.tsv[.gz]
    python benchmarks/labels.py trec DIR --from MINILM
    python benchmarks/labels.py zh-shopping DIR                 # pretrains on its text first
    python benchmarks/labels.py chnsenticorp DIR --from runs/zh-shopping/encoder

A row of a file has the label in column 1 or 2 and the text in the last one, no header. The floor is
logistic regression over characters (`gnomon.evaluation.counted`); p is McNemar's exact test of the
first seed against it. Seeds are 1, 2, 3; the best step is validation's. A run that is there is not
trained again. ChnSentiCorp is judged on the test rows that stand neither in train nor
in dev, compared without punctuation and blanks.
"""

from __future__ import annotations

import argparse
import gzip
import math
import statistics
import subprocess
import sys
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path

import gnomon
from gnomon.api import evaluate_classifier
from gnomon.evaluation.counted import CountedCharacters


@dataclass(frozen=True)
class Experiment:
    """How a set is laid out and trained on.

    Attributes:
        label, text: columns, from 1.
        preset: of the classifier.
        settings: of the classifier.
        pretrain: settings of the encoder that is pretrained first; None: `--from` names one.
        bilstm: settings of the BiLSTM beside it; None: none is trained.
    """

    label: int
    text: int
    preset: str
    settings: tuple[str, ...] = ()
    pretrain: tuple[str, ...] | None = None
    bilstm: tuple[str, ...] | None = None


CHINESE = ("tokenizer.vocab_size=4000", "masking.share=0.4", "training.max_steps=8000")

EXPERIMENTS = {
    "sst2": Experiment(1, 2, "sst2", bilstm=("training.max_steps=800",)),
    "trec": Experiment(1, 3, "trec", bilstm=("training.max_steps=600",)),
    "zh-shopping": Experiment(2, 3, "reviews", pretrain=CHINESE),
    "chnsenticorp": Experiment(
        1,
        2,
        "reviews",
        ("training.max_steps=1000", "training.validate_every=100"),
        pretrain=CHINESE,
    ),
}


@dataclass
class Split:
    """Rows of one file."""

    labels: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, folder: Path, name: str, experiment: Experiment) -> Split:
        """The rows of DIR/NAME.tsv, gzipped or not; none where there is no such file."""
        found = cls()
        for path in (folder / f"{name}.tsv", folder / f"{name}.tsv.gz"):
            if path.is_file():
                content = path.read_bytes()
                content = gzip.decompress(content) if path.suffix == ".gz" else content
                for line in content.decode("utf-8").rstrip("\n").split("\n"):
                    row = line.split("\t")
                    found.labels.append(row[experiment.label - 1])
                    found.texts.append(row[experiment.text - 1])
        return found

    def write(self, path: Path) -> Path:
        """As a file with a header."""
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = (f"{a}\t{b}\n" for a, b in zip(self.labels, self.texts, strict=True))
        path.write_text("label\ttext\n" + "".join(rows), encoding="utf-8")
        return path

    def without(self, *others: Split) -> Split:
        """The rows whose text, without punctuation and blanks, stands in none of these."""
        known = {bare(text) for other in others for text in other.texts}
        keep = [i for i, text in enumerate(self.texts) if bare(text) not in known]
        return Split([self.labels[i] for i in keep], [self.texts[i] for i in keep])


def main() -> int:
    options = parse_arguments()
    experiment = EXPERIMENTS[options.set]
    train, dev, test = (
        Split.read(options.data, name, experiment) for name in ("train", "dev", "test")
    )
    if options.set == "chnsenticorp":
        test = test.without(train, dev)
    out = options.out / options.set
    files = {
        name: split.write(out / f"{name}.tsv")
        for name, split in (("train", train), ("dev", dev), ("test", test))
        if split.texts
    }
    floor = CountedCharacters(train.texts, train.labels).classify(test.texts)
    show("floor: logistic regression over characters", [share(floor, test.labels)], [], "")
    base = options.start
    if base is None and experiment.pretrain is not None:
        base = pretrained(experiment, options, out, train)
    rows = [(experiment.preset, experiment.settings, base)]
    if experiment.bilstm is not None:
        rows.append(("bilstm", experiment.bilstm, None))
    for preset, settings, start in rows:
        accuracy, f1, p = [], [], ""
        for seed in options.seeds:
            run = out / f"{preset}-{seed}"
            fit(preset, run, files, [*settings, f"training.seed={seed}"], start)
            report = evaluate_classifier(run, data=files["test"], settings={"resamples": 0})
            accuracy.append(report["accuracy"].value)
            f1.append(report["macro_f1"].value)
            if not p:
                ours = [one.labels[0] for one in gnomon.load(run).classify(test.texts)]
                p = f"{mcnemar(ours, floor, test.labels):.3g}"
        show(preset, accuracy, f1, p)
    return 0


def pretrained(
    experiment: Experiment, options: argparse.Namespace, out: Path, train: Split
) -> Path:
    """An encoder that has learned to guess hidden words of the training text, or of another's."""
    texts = train.texts
    if options.unlabelled is not None:
        texts = Split.read(options.unlabelled, "train", EXPERIMENTS["zh-shopping"]).texts
    plain = out / "pretraining.txt"
    plain.write_text("".join(text + "\n" for text in texts), encoding="utf-8")
    run = out / "encoder"
    fit("encoder", run, {"train": plain}, list(experiment.pretrain or ()), None)
    return run


def fit(
    preset: str, run: Path, files: dict[str, Path], settings: list[str], start: Path | None
) -> None:
    """Train, or go on, or find it finished."""
    command = [sys.executable, "-m", "gnomon", "train", preset, "--run", str(run)]
    command += ["--data", str(files["train"])]
    if "dev" in files:
        command += ["--valid-data", str(files["dev"])]
    for setting in settings:
        command += ["--set", setting]
    if start is not None:
        command += ["--from", str(start)]
    print("$ gnomon", *command[3:], flush=True)
    subprocess.run(command, check=True)


def bare(text: str) -> str:
    """Letters and digits alone."""
    return "".join(c for c in text if unicodedata.category(c)[0] not in "PZSC")


def share(labels: list[str], gold: list[str]) -> float:
    return 100 * sum(a == b for a, b in zip(labels, gold, strict=True)) / len(gold)


def mcnemar(ours: list[str], floor: list[str], gold: list[str]) -> float:
    """Two-sided exact p: texts that only one of two gets right are as many for each by chance."""
    rights = [(a == g, b == g) for a, b, g in zip(ours, floor, gold, strict=True)]
    one, other = rights.count((True, False)), rights.count((False, True))
    n, least = one + other, min(one, other)
    return min(1.0, 2 * sum(math.comb(n, k) for k in range(least + 1)) / 2**n)


def show(name: str, accuracy: list[float], f1: list[float], p: str) -> None:
    def cell(values: list[float]) -> str:
        if not values:
            return "–"
        spread = f" ({min(values):.2f} to {max(values):.2f})" if len(values) > 1 else ""
        return f"{statistics.mean(values):.2f}{spread}"

    print(f"| {name} | {cell(accuracy)} | {cell(f1)} | {p or '–'} |", flush=True)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("set", choices=EXPERIMENTS)
    parser.add_argument("data", type=Path, help="folder with train, dev and test .tsv or .tsv.gz")
    parser.add_argument("--from", dest="start", type=Path, help="model or run to begin with")
    parser.add_argument("--unlabelled", type=Path, help="folder whose train texts to pretrain on")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--out", type=Path, default=Path("runs"))
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
