"""How far language models reach: trained with 256 tokens in view, judged with up to 2,048.

    python benchmarks/reach.py DATA --out FOLDER

One small decoder of characters per kind of position learns the first nine tenths of the text at
DATA, all with the same seed, steps and batches. The rest is read in windows of --length tokens,
and its loss told by how many tokens stand before. `gnomon extend` stretches rotary positions and
resizes learned ones, first without any further training, then with --finetune steps on long rows.
FOLDER keeps the runs (a second call goes on where the first was stopped), `reach.json` and
`reach.png`.

    python benchmarks/reach.py DATA --out FOLDER --model RUN

judges a language model that is there already, as it is and with its positions stretched; DATA is
the text to judge on.
"""

from __future__ import annotations

import argparse
import gzip
import json
from dataclasses import asdict
from pathlib import Path

from gnomon import api
from gnomon.api.extend import Method
from gnomon.cli.plot import plot_positions
from gnomon.errors import GnomonError
from gnomon.evaluation.language import LanguageReport

KINDS: dict[str, list[str]] = {
    # Sinuses are as large as an embedding is only after the paper's scaling.
    "sinusoidal": ["model.embedding.scale=true"],
    "learned": [],
    "rope": [],
    "alibi": [],
    "relative": [],
}
METHODS: dict[str, tuple[Method, ...]] = {
    "learned": ("resize",),
    "rope": ("linear", "ntk", "dynamic_ntk", "yarn"),
}
SHARE = 0.9  # of the text to train on
FEWEST = 100  # tokens; what is drawn of fewer is chance


def main() -> None:
    """Train, stretch, judge; print a table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", type=Path, help="plain text, may be .gz")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--model", type=Path, help="judge this one instead of training")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--finetune", type=int, default=20, help="steps on long rows; 0: none")
    parser.add_argument("--context", type=int, default=256)
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--windows", type=int, default=27, help="so many are judged")
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--precision", default="bf16", choices=["fp32", "bf16"])
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    found: dict[str, LanguageReport | str] = {}

    def judge(name: str, model: Path) -> None:
        found[name] = judged(model, windows, given.length)
        show(name, found[name])
        write(found, given)

    if given.model is not None:
        windows = given.data
        kind = api.load(given.model).model.config.position.kind
        judge(kind, given.model)
        for method in METHODS.get(kind, ()):
            judge(f"{kind}, {method}", stretched(given.model, method, given))
        return
    train, held_out, windows = split(given.data, given.out, given.windows * given.length)
    for kind in given.kinds:
        run = trained(kind, train, held_out, given)
        judge(kind, run)
        for method in METHODS.get(kind, ()):
            folder = stretched(run, method, given)
            name = f"{kind}, {method}"
            judge(name, folder)
            # A length of each text's own does not go with batches, so dynamic_ntk is not trained.
            if given.finetune and method != "dynamic_ntk":
                tuned = finetuned(folder, train, held_out, given)
                judge(f"{name}, {given.finetune} steps", tuned)


def split(data: Path, out: Path, num_judged: int) -> tuple[Path, Path, Path]:
    """The text's first part, its end, and so many characters of that, as files."""
    raw = gzip.decompress(data.read_bytes()) if data.suffix == ".gz" else data.read_bytes()
    text = raw.decode("utf-8")
    cut = int(SHARE * len(text))
    train, held_out, windows = (out / f"{name}.txt" for name in ("train", "held-out", "windows"))
    train.write_text(text[:cut], encoding="utf-8")
    held_out.write_text(text[cut:], encoding="utf-8")
    windows.write_text(text[cut : cut + num_judged], encoding="utf-8")
    return train, held_out, windows


def trained(kind: str, train: Path, held_out: Path, given: argparse.Namespace) -> Path:
    """The run of a model with positions of one kind."""
    overrides = [
        f"data.context={given.context}",
        f"model.position.kind={kind}",
        f"model.num_decoder_layers={given.layers}",
        f"training.max_steps={given.steps}",
        *KINDS[kind],
    ]
    if kind == "learned":
        overrides.append(f"model.position.max_length={given.context}")
    return fitted(train, held_out, given, overrides, run=given.out / kind)


def stretched(run: Path, method: Method, given: argparse.Namespace) -> Path:
    """The model with its positions stretched to the long windows."""
    folder = given.out / f"{run.name}-{method}"
    if not folder.exists():
        length = None if method == "dynamic_ntk" else given.length
        api.extend(run, folder, method=method, length=length)
    return folder


def finetuned(folder: Path, train: Path, held_out: Path, given: argparse.Namespace) -> Path:
    """A few steps of a stretched model on rows as long as the windows."""
    overrides = [
        f"data.context={given.length}",
        f"training.max_steps={given.finetune}",
        f"training.tokens_per_batch={2 * given.length}",
        "schedule.peak=5e-4",
        "schedule.warmup_steps=10",
    ]
    run = folder.parent / f"{folder.name}-tuned"
    return fitted(train, held_out, given, overrides, run=run, start_from=folder)


def fitted(
    train: Path, held_out: Path, given: argparse.Namespace, overrides: list[str], **options: Path
) -> Path:
    """The run of a training that was not stopped."""
    training = api.train(
        "shakespeare",
        data=train,
        valid_data=held_out,
        overrides=[
            *overrides,
            f"training.seed={given.seed}",
            f"training.precision={given.precision}",
            "evaluation.max_tokens=4096",
        ],
        **options,
    )
    if training.outcome.reason == "interrupted":
        raise SystemExit("stopped; the same command goes on")
    return training.run


def judged(model: Path, text: Path, length: int) -> LanguageReport | str:
    """Losses by position, or why there are none."""
    try:
        return api.evaluate_language_model(
            model,
            data=text,
            documents_are="files",
            length=length,
        )
    except GnomonError as error:
        return error.rule


def show(name: str, found: LanguageReport | str) -> None:
    """One line of the table."""
    if isinstance(found, str):
        print(f"| {name} | {found} |", flush=True)
        return
    cells = [f"{row.perplexity:.2f}" for row in found.positions]
    print(f"| {name} | {' | '.join(cells)} |", flush=True)


def write(found: dict[str, LanguageReport | str], given: argparse.Namespace) -> None:
    """The figures as JSON, the picture, and the table of the last positions."""
    reports = {name: each for name, each in found.items() if not isinstance(each, str)}
    tree = {
        "context": given.context,
        "model": None if given.model is None else str(given.model),
        "layers": given.layers,
        "steps": given.steps,
        "seed": given.seed,
        "precision": given.precision,
        "positions": {
            name: [asdict(row) for row in each.positions] for name, each in reports.items()
        },
        "refused": {name: each for name, each in found.items() if isinstance(each, str)},
    }
    (given.out / "reach.json").write_text(json.dumps(tree, indent=1) + "\n", encoding="utf-8")
    plot_positions(
        {
            name: [row for row in each.positions if row.tokens >= FEWEST]
            for name, each in reports.items()
            if not name.endswith("steps")  # ten lines are enough
        },
        given.context,
        given.out / "reach.png",
    )


if __name__ == "__main__":
    main()
