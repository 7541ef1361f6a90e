"""Classifiers of three kinds learn what can be learned, and give every text its own result."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import gnomon
from gnomon import api
from gnomon.errors import DataError, ModelError, RecipeError
from gnomon.tasks import Classifier
from gnomon.training import RunFolder
from label_training import ANIMALS, RECIPE, sentences, write
from small_training import Stop


def train(folder: Path, kind: str, *overrides: str, **options: Any) -> api.Training:
    recipe = folder / "r.toml"
    recipe.write_text(RECIPE)
    settings = [*overrides]
    if kind in ("multi", "words"):
        settings.append(f"data.labels_are={kind}")
    if kind == "pair":
        settings.append("data.pair=pair")
    run = options.pop("run", folder / f"run-{kind}")
    return api.train(recipe, data=write(folder, kind), overrides=settings, run=run, **options)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("classifier")
    train(folder, "single")
    return folder / "run-single"


@pytest.mark.parametrize(("kind", "least"), [("single", 90), ("multi", 90), ("words", 99)])
def test_what_can_be_learned_is(tmp_path: Path, kind: str, least: float) -> None:
    training = train(tmp_path, kind)
    report = api.evaluate_classifier(training.run, settings={"resamples": 0})
    assert report["accuracy"].value >= least
    classifier = gnomon.load(training.run)
    texts = [" ".join(words) for words in sentences(20, seed=9)]
    found = classifier.classify(texts)
    for text, one in zip(texts, found, strict=True):
        assert len(one.labels) == len(one.confidence)
        if kind == "words":
            assert len(one.labels) == len(text.split())
        if kind == "single":
            assert sum(one.probabilities) == pytest.approx(1)


def test_a_bilstm_learns_it_too(tmp_path: Path) -> None:
    settings = ["network=bilstm", "bilstm.d_model=32", "bilstm.embedding_size=16"]
    training = train(tmp_path, "single", *settings)
    report = api.evaluate_classifier(training.run, settings={"resamples": 0})
    assert report["accuracy"].value >= 90
    baseline = report.baselines
    assert [name.split()[0] for name in baseline] == ["always"]
    assert check_batches(gnomon.load(training.run))


def check_batches(classifier: Classifier) -> bool:
    """Results of texts alone, together, and in another order are the same but for rounding."""
    texts = ["", "dog", *(" ".join(words) for words in sentences(40, seed=3)), "pen " * 40]
    together = classifier.classify(texts)
    backwards = classifier.classify(texts[::-1], batch_tokens=100)[::-1]
    alone = [classifier.classify([text])[0] for text in texts]
    for one, *others in zip(together, backwards, alone, strict=True):
        for other in others:
            assert one.labels == other.labels
            assert one.cut == other.cut
            assert np.allclose(one.probabilities, other.probabilities, atol=1e-5)
    assert together[-1].cut == 40 - 22  # begin and end take two
    return True


def test_results_do_not_depend_on_the_batch(trained: Path) -> None:
    assert check_batches(gnomon.load(trained))


def test_a_decoder_classifies_too(tmp_path: Path) -> None:
    settings = ["model.family=decoder", "model.num_decoder_layers=1", "classifier.pooling=last"]
    training = train(tmp_path, "single", *settings)
    report = api.evaluate_classifier(training.run, settings={"resamples": 0})
    assert report["accuracy"].value >= 90
    assert check_batches(gnomon.load(training.run))


def test_a_killed_training_goes_on_bitwise(tmp_path: Path, trained: Path) -> None:
    stopped = train(tmp_path, "single", listeners=[Stop(50)])
    assert not stopped.outcome.finished
    assert train(tmp_path, "single").outcome.finished
    whole, parts = (
        torch.cat([p.flatten() for p in gnomon.load(run, checkpoint="last").network.parameters()])
        for run in (trained, tmp_path / "run-single")
    )
    assert torch.equal(whole, parts)


def test_pairs(tmp_path: Path) -> None:
    training = train(tmp_path, "pair", "training.max_steps=10", "model.embedding.num_segments=2")
    classifier = gnomon.load(training.run)
    one, other = classifier.classify(["dog cat", "dog"], ["dog", "dog cat"])
    assert one.probabilities != other.probabilities
    with pytest.raises(RecipeError, match="needs a second text"):
        classifier.classify(["dog"])
    with pytest.raises(DataError, match="every text needs a second one"):
        classifier.classify(["dog"], [])
    rows = classifier.row_maker.framing.frame(["a"], ["b"])
    assert rows[0].segments[-1] == 1


def test_long_texts_whose_words_are_labelled_lose_none(tmp_path: Path) -> None:
    training = train(tmp_path, "words")
    classifier = gnomon.load(training.run)
    words = [word for some in sentences(30, seed=5) for word in some]
    (found,) = classifier.classify([" ".join(words)])
    assert len(words) > 100
    assert found.labels == tuple("A" if word in ANIMALS else "T" for word in words)
    assert found.cut == 0
    (empty,) = classifier.classify([" "])
    assert empty.labels == ()


def test_balanced_labels_weigh_alike(tmp_path: Path) -> None:
    path = tmp_path / "rare.tsv"
    path.write_text("text\tlabel\n" + "dog\ta\n" * 270 + "dog\tb\n" * 30)  # nothing to tell them by
    recipe = tmp_path / "r.toml"
    recipe.write_text(RECIPE)
    shares = {}
    for weights in ("none", "balanced"):
        settings = [f"class_weights={weights}", "data.holdout=0", "schedule.peak=2e-3"]
        run = tmp_path / weights
        api.train(recipe, data=path, overrides=settings, run=run)
        shares[weights] = gnomon.load(run).classify(["dog"])[0].probabilities[1]
    assert shares["none"] == pytest.approx(0.1, abs=0.05)
    assert shares["balanced"] == pytest.approx(0.5, abs=0.1)
    with pytest.raises(RecipeError, match="r_drop"):
        settings = ["class_weights=balanced", "objective.r_drop=1.0"]
        api.train(recipe, data=path, overrides=settings, run=tmp_path / "x")


def test_thresholds(tmp_path: Path) -> None:
    training = train(tmp_path, "multi", "training.max_steps=20")
    classifier = gnomon.load(training.run)
    low, high = (classifier.classify(["dog pen"], threshold=t)[0] for t in (0.001, 0.999))
    assert low.labels == ("dog", "pen")
    assert high.labels == ()
    with pytest.raises(RecipeError, match="threshold"):
        classifier.classify(["dog"], threshold=1.5)


def test_folders_that_do_not_fit_are_refused(trained: Path, tmp_path: Path) -> None:
    import json
    import shutil

    folder = RunFolder(trained).best()
    for number, (key, value, message) in enumerate(
        (
            ("labels", ["a"], "do not fit"),
            ("labels_are", "some", "damaged"),
            ("threshold", math.nan, "damaged"),
            ("a_key", 1, "does not know"),
            ("labels", ["a", "a"], "each once"),
            ("max_length", "long", "damaged"),
            ("label_counts", [1], "1 label_counts for 2 labels"),
            ("classifier", {"pooling": "sum"}, "damaged"),
            ("classifier", {"poolings": "mean"}, "ClassifierConfig has no key poolings"),
            ("classifier", {"dropout": 2.0}, "dropout must be"),
            ("lora", {"rang": 4}, "LoraConfig has no key rang"),
            ("task", "poetry", "poetry"),
        )
    ):
        copy = tmp_path / f"copy-{number}"
        shutil.copytree(folder, copy)
        config = json.loads((copy / "config.json").read_text())
        (copy / "config.json").write_text(json.dumps(config | {key: value}))
        with pytest.raises(ModelError, match=message):
            gnomon.load(copy)


def test_a_translators_verbs_refuse_a_classifier(trained: Path) -> None:
    with pytest.raises(ModelError, match=r"gnomon classify"):
        api.load_for("translation", trained)


def test_other_labels_are_refused_where_a_model_is_judged(trained: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    path.write_text("text\tlabel\n" + "dog\tyes\npen\tno\n" * 20)
    with pytest.raises(DataError, match="'yes'; known: 'animals', 'things'"):
        api.evaluate_classifier(trained, data=path)


def test_texts_that_are_too_long_are_refused_where_they_are_to_be(tmp_path: Path) -> None:
    settings = ["data.max_length=5", "training.max_steps=2", "training.validate_every=2"]
    said: list[str] = []
    train(tmp_path, "single", *settings, run=tmp_path / "cut", check=False, say=said.append)
    assert sum("are longer than data.max_length = 5" in each for each in said) == 2
    with pytest.raises(DataError, match=r"single\.tsv, row \d+: \d+ more; .* others"):
        train(tmp_path, "single", *settings, "data.on_too_long=error", run=tmp_path / "refused")


def test_the_most_frequent_label_is_in_the_folder(trained: Path, tmp_path: Path) -> None:
    """A model folder far from its training text has its plain baseline."""
    import shutil

    shutil.copytree(RunFolder(trained).best(), tmp_path / "shipped")
    path = tmp_path / "x.tsv"
    path.write_text("text\tlabel\n" + "dog\tthings\ncat\tanimals\nhen\tanimals\n")
    report = api.evaluate_classifier(tmp_path / "shipped", data=path, settings={"resamples": 0})
    counts = gnomon.load(tmp_path / "shipped").label_counts
    assert sum(counts) == 540  # 60 of 600 are held out
    assert counts[1] > counts[0]
    assert report.baselines["always things"][0].value == pytest.approx(100 / 3)


def test_another_tokenizer_of_the_same_size_is_refused(trained: Path, tmp_path: Path) -> None:
    import json
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(RunFolder(trained).best(), copy)
    written = json.loads((copy / "tokenizer.json").read_text())
    vocab = written["model"]["vocab"]
    last, before = sorted(vocab, key=lambda piece: -vocab[piece])[:2]
    vocab[last], vocab[before] = vocab[before], vocab[last]
    (copy / "tokenizer.json").write_text(json.dumps(written))
    with pytest.raises(ModelError, match="the tokenizer that it was saved with"):
        gnomon.load(copy)
    config = json.loads((copy / "config.json").read_text())
    assert config.pop("vocabulary") == gnomon.load(trained).framing.fingerprint
    (copy / "config.json").write_text(json.dumps(config))
    assert gnomon.load(copy).labels  # whoever means it may


def test_columns_that_do_not_fit_the_classifier(trained: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    path.write_text("text\tpair\tlabel\ndog\tcat\tanimals\npen\tcup\tthings\n")
    api.evaluate_classifier(trained, data=path)
    with pytest.raises(RecipeError, match="column of the second text: pair"):
        api.evaluate_classifier(trained, data=path, columns={"pair": "pair"})


def test_broken_weights_give_no_labels(trained: Path) -> None:
    classifier = gnomon.load(trained)
    with torch.no_grad():
        (row,) = classifier.framing.frame(["dog"])
        classifier.network.network.table("source")[row.ids[1]] = torch.nan
    assert classifier.classify(["pen"])[0].labels
    with pytest.raises(ModelError, match="first for text 2"):
        classifier.classify(["pen", "dog"])


def test_fine_tuning_says_whose_network_it_is(trained: Path, tmp_path: Path) -> None:
    said: list[str] = []
    settings = ["training.max_steps=1", "model.d_model=64", "model.dropout=0.3"]
    run = tmp_path / "fine"
    train(tmp_path, "single", *settings, run=run, start_from=trained, say=said.append, check=False)
    assert f"the network is that of {trained}: of [model] dropout and" in " ".join(said)
    config = gnomon.load(run).network.network.config
    assert (config.d_model, config.dropout) == (32, 0.3)
