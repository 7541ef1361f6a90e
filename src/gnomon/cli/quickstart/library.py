"""`gnomon quickstart --task generate`: a language model of Python's own standard library."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gnomon.cli.console import console, say
from gnomon.cli.quickstart.story import Corpus, Story, show_command
from gnomon.quickstart.library import SourceFile

if TYPE_CHECKING:
    from gnomon.tasks import LanguageModel

ORDER = 6  # tokens of the baseline's n-grams; longer ones add under half a percent
STRIDE = 128  # of windows of 256 tokens: all but a file's first tokens have 128 or more before them
PROMPTS = (
    "import os\nimport sys\n",
    "class ParseError(Exception):\n",
    "    def close(self):\n",
    '    if not isinstance(value, str):\n        raise TypeError("',
)
NUM_TOKENS = 48  # that each of them is gone on with


class Library(Story[SourceFile]):
    """Modules of the standard library."""

    preset = folder = "quickstart-generate"
    prepares = "the sources of this Python's own standard library"
    judges = "on held-out files, beside n-grams that were counted in the same training text"
    shows = "Prompts, and how the model goes on"
    unit = "files"
    suffix = ".jsonl"

    def read(self) -> Corpus[SourceFile]:
        """See `read_library`."""
        from gnomon.quickstart.library import find_library, read_library

        return read_library(find_library())

    def written(self, items: Sequence[SourceFile]) -> str:
        """As JSON lines."""
        rows = ({"name": each.name, "text": each.text} for each in items)
        return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)

    def introduce(self, corpus: Corpus[SourceFile]) -> None:
        """How much text that is, and which files are held out."""
        size = sum(len(each.text) for each in corpus.train) / 1e6
        names = ", ".join(sorted(each.name for each in corpus.test))
        say(f"{size:.1f} million characters to learn from. Held out: {names}")

    def evaluate(self, corpus: Corpus[SourceFile], run: Path) -> None:
        """Beside n-grams over the same tokens."""
        from gnomon import api
        from gnomon.cli.report import print_scores

        print_scores(api.evaluate_language_model(run, stride=STRIDE, ngrams=ORDER), console())

    def show(self, corpus: Corpus[SourceFile], model: LanguageModel) -> None:
        """A prompt each, and what the model adds."""
        found = model.generate(PROMPTS, max_tokens=NUM_TOKENS, sample=True, temperature=0.5, seed=0)
        for prompt, result in zip(PROMPTS, found, strict=True):
            console().print(prompt, style="bold", markup=False, highlight=False, end="")
            console().print(result.text.rstrip(), markup=False, highlight=False)
            console().rule(style="dim")

    def say_what_next(self, corpus: Corpus[SourceFile], run: Path) -> None:
        """Another prompt, a look inside, loss by position, the user's own text."""
        prompt = r'--escapes --prompt "def main():\n"'
        show_command(f"gnomon generate {run} {prompt} --sample --temperature 0.5")
        show_command(f"gnomon evaluate {run} --by-position")
        show_command(f"gnomon doctor {run}")
        console().print("Your own code, a folder of it (some files are held out):")
        show_command(f"gnomon train {self.preset} --data my/project --run runs/mine")
        show_command(f"gnomon evaluate runs/mine --ngrams {ORDER}")
