"""Measure how far a language model reaches: what it finds of what was said far before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from gnomon.api.load import load_for, model_folder
from gnomon.errors import DataError, RecipeError
from gnomon.evaluation.retrieval import RetrievalReport, retrieval_row
from gnomon.files import atomic_file
from gnomon.tasks import LanguageModel
from gnomon.tasks.language_scoring import in_view
from gnomon.tasks.progress import Stages, unseen
from gnomon.tasks.retrieval import Haystack
from gnomon.text.document_files import DocumentsConfig, DocumentSource
from gnomon.text.needles import FILLER, NAMES, needle_texts

UNKNOWN_CONTEXT = 256  # tokens; what is taken for the training's of a model that does not say
_FILLER_WORDS = 1 << 17  # of a text of one's own, so many are read


def find_needles(
    model: str | Path,
    *,
    lengths: Sequence[int] = (),
    data: str | Path | None = None,
    num_documents: int = 16,
    num_pairs: int = 4,
    seed: int = 1,
    checkpoint: str = "best",
    device: str = "auto",
    progress: Stages = unseen,
) -> RetrievalReport:
    """State pairs in documents of several lengths, and ask for one at several distances.

    Args:
        model, checkpoint, device: see `load`.
        lengths: tokens in view; default from half of what was in view in training to eight times
            that, as far as the positions reach.
        data: text to stand around the pairs; default made-up words.
        num_documents: for each length and distance.
        num_pairs: that a document states; one of them is asked for.
        seed: which documents.
        progress: is told what begins.

    Raises:
        DataError: no words to stand between, or the vocabulary cannot spell the documents.
        ModelError, RunError: see `load`.
        RecipeError: lengths that the model does not reach, or that hold no document.
    """
    folder = model_folder(model, checkpoint)
    found: LanguageModel = load_for("language_model", folder, device=device)
    trained = found.context or UNKNOWN_CONTEXT
    if num_documents < 1:
        raise RecipeError("there must be documents to ask of", seen=num_documents)
    for length in lengths:
        in_view(found, length)
    filler = FILLER if data is None else _words_of(data)
    stack = Haystack(found, filler, num_pairs=num_pairs)
    lengths = list(lengths) or _usual_lengths(trained, found.reach, stack.needed)
    cells = [(length, distance) for length in lengths for distance in stack.distances(length)]
    done = progress("asking", len(cells) * num_documents)
    rows = []
    for length, distance in cells:
        results = []
        for document in stack.documents(length, distance, num_documents, seed):
            results.append(stack.ask(document))
            done(1)
        rows.append(retrieval_row(length, distance, results))
    about = {
        "model": str(folder),
        "data": None if data is None else str(data),
        "num_pairs": num_pairs,
        "seed": seed,
        "trained_with": found.context,
    }
    return RetrievalReport(rows, about)


def _usual_lengths(trained: int, reach: int | None, needed: int) -> list[int]:
    """From half of what was in view in training to eight times that, where documents fit."""
    usual = (trained // 2, trained, 2 * trained, 4 * trained, 8 * trained)
    found = [length for length in usual if needed <= length and (reach is None or length <= reach)]
    return found or [needed if reach is None else min(needed, reach)]


def write_needles(
    path: str | Path,
    *,
    num_documents: int,
    num_words: int = 1000,
    num_pairs: int = 4,
    seed: int = 1,
) -> None:
    """Write text from which a language model can learn to answer, a document a line.

    Args:
        path: the file.
        num_documents: how many lines.
        num_words: of each, about.
        num_pairs: stated in each of its chapters.
        seed: which documents; others than those that `find_needles` asks of.

    Raises:
        RecipeError: too few or too many pairs.
    """
    if not 2 <= num_pairs <= len(NAMES):
        raise RecipeError(f"a document states 2 to {len(NAMES)} pairs", seen=num_pairs)
    with atomic_file(Path(path)) as file:
        for text in needle_texts(
            num_documents, num_words=num_words, num_pairs=num_pairs, seed=seed
        ):
            file.write(f"{text}\n".encode())


def _words_of(data: str | Path) -> list[str]:
    """The first words of a text."""

    def words() -> Iterator[str]:
        for document in DocumentSource(DocumentsConfig(), "given", data):
            yield from document.split()

    found = [word for word, _ in zip(words(), range(_FILLER_WORDS), strict=False)]
    if not found:
        raise DataError("the text to stand around the pairs must hold words", seen=data)
    return found
