"""Trains a shipped recipe on Multi30k and scores it on test2016, by gnomon's own two commands.

    python benchmarks/multi30k.py DIR                # en→de by the literature's protocol
    python benchmarks/multi30k.py DIR --recipe multi30k-long
    python benchmarks/multi30k.py DIR --text raw --pair de-en

DIR holds the files of github.com/multi30k/dataset, gzipped or not: `tok/` (lower-cased, normalised
and tokenised by its authors) and `raw/` (as written). On `tok/` BLEU is taken on the tokens as they
are, as published text-only figures are (reference length 12,103 words for German); on `raw/` it is
sacreBLEU's 13a, with case and without. The two scales differ by several points: say which.

Given again, the command continues a run that was stopped, and scores one that is finished.
"""

import argparse
import subprocess
import sys
from pathlib import Path

NAMES = {
    "tok": {
        "train": "train.lc.norm.tok",
        "valid": "val.lc.norm.tok",
        "test": "test_2016_flickr.lc.norm.tok",
    },
    "raw": {"train": "train", "valid": "val", "test": "test_2016_flickr"},
}


def main() -> int:
    options = parse_arguments()
    source, target = options.pair.split("-")
    folder = options.data / options.text
    files = {
        (split, language): existing(folder / f"{name}.{language}")
        for split, name in NAMES[options.text].items()
        for language in (source, target)
    }
    run = options.run or Path("runs") / f"{options.recipe}-{options.pair}-{options.text}"
    gnomon = [sys.executable, "-m", "gnomon"]
    train = [*gnomon, "train", options.recipe, "--run", str(run)]
    train += ["--src", files["train", source], "--tgt", files["train", target]]
    settings = [
        f'data.{split}_{side}="{files[split, language]}"'
        for split in ("valid", "test")
        for side, language in (("source", source), ("target", target))
    ]
    if options.text == "tok":
        settings.append('evaluation.tokenize="none"')
    for setting in [*settings, *options.set]:
        train += ["--set", setting]
    evaluate = [*gnomon, "evaluate", str(run), "--metrics", "bleu,chrf"]
    commands = [train, evaluate]
    if options.text == "raw":
        commands.append([*evaluate, "--lowercase"])
    for command in commands:
        print("$ gnomon", *command[3:], flush=True)
        if code := subprocess.run(command, check=False).returncode:
            return code
    return 0


def existing(path: Path) -> str:
    """The file, or its gzipped form."""
    zipped = path.with_name(f"{path.name}.gz")
    return str(path if path.is_file() or not zipped.is_file() else zipped)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path, help="folder with tok/ and raw/")
    parser.add_argument("--recipe", default="multi30k", help="a preset or a TOML file")
    parser.add_argument("--pair", default="en-de", help="source and target language")
    parser.add_argument("--text", choices=("tok", "raw"), default="tok")
    parser.add_argument("--run", type=Path, help="default runs/RECIPE-PAIR-TEXT")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
