"""Classifiers: taken in with their labels, given back, and those of ours in transformers' hands."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

import gnomon
from gnomon import api
from gnomon.doctor.targets import Options
from gnomon.errors import ModelError, RecipeError
from gnomon.interop import export_model, import_model
from gnomon.model import BiLSTM, BiLSTMConfig, ClassifierConfig, ClassifierNetwork, LoraConfig
from gnomon.model import Transformer as OurTransformer
from gnomon.tasks import Classifier, load_classifier
from gnomon.tasks.classifier_folder import save_classifier
from gnomon.text import Tokenizer, VocabularyConfig
from gnomon.text.framing import MASK, OwnFraming
from interop.test_own_models import BERT_LIKE
from interop.zoo import CLASSIFIERS, save
from model_configs import BASE, LLAMA, changed
from two_times_rule import assert_two_times

LABELS = {0: "good", 1: "so, so", 2: "bad"}
TEXTS = ["w1 w2 w3", "w4", "w5 w6 w7 w8 w9 w10", "nothing known here"]
PAIRS = ["w9 w8", "w1", "w3 w3 w3", "w2"]


@torch.no_grad()
def compare(ours: Classifier, theirs: Any, pairs: list[str] | None = None) -> None:
    """Logits of texts, one by one, by the 2× rule."""
    rows = ours.framing.frame(TEXTS, pairs)
    takes_segments = getattr(theirs.config, "type_vocab_size", 0) > 1
    for row in rows:
        ids, keep = torch.tensor([row.ids]), torch.ones(1, len(row.ids), dtype=torch.bool)
        segments = torch.tensor([row.segments])
        more = {"token_type_ids": segments} if takes_segments else {}
        found = ours.network(ids, keep, segments)
        plain = theirs.float()(ids, attention_mask=keep.long(), **more).logits
        exact = theirs.double()(ids, attention_mask=keep.long(), **more).logits
        theirs.float()
        assert_two_times(found, plain, exact, type(theirs).__name__)


def same(before: Path, after: Path) -> None:
    """All tensors, bit for bit."""
    one, other = (load_file(folder / "model.safetensors") for folder in (before, after))
    assert one.keys() == other.keys()
    for name in one:
        assert torch.equal(one[name], other[name]), name


@pytest.mark.parametrize("name", sorted(CLASSIFIERS))
def test_in_used_and_back(name: str, tmp_path: Path) -> None:
    import transformers

    theirs = save(name, tmp_path / "theirs", labels=LABELS)
    done = import_model(tmp_path / "theirs", tmp_path / "ours")
    assert done.task == "classification"
    ours = gnomon.load(tmp_path / "ours")
    assert ours.labels == tuple(LABELS.values())
    words = "Token" in CLASSIFIERS[name][0]
    assert ours.kind == ("words" if words else "single")
    compare(ours, theirs)
    export_model(tmp_path / "ours", tmp_path / "back")
    same(tmp_path / "theirs", tmp_path / "back")
    for path in (tmp_path / "theirs").glob("*.json"):
        assert json.loads(path.read_text()) == json.loads(
            (tmp_path / "back" / path.name).read_text()
        )
    # As a training leaves it, without what came: the first architecture that computes the same.
    save_classifier(ours, tmp_path / "plain")
    export_model(tmp_path / "plain", tmp_path / "out")
    kind = "Token" if words else "Sequence"
    auto = getattr(transformers, f"AutoModelFor{kind}Classification")
    back = auto.from_pretrained(tmp_path / "out").eval()
    assert back.config.id2label == LABELS
    assert back.config.label2id == {label: index for index, label in LABELS.items()}
    compare(ours, back)
    # AutoTokenizer reads every qwen2 with Qwen2's own way of cutting, whatever the file says.
    opener = "PreTrainedTokenizerFast" if name.startswith("qwen2") else "AutoTokenizer"
    tokenizer = getattr(transformers, opener).from_pretrained(tmp_path / "out")
    with torch.no_grad():
        logits = back(**tokenizer(TEXTS[0], return_tensors="pt")).logits[0]
    segments = getattr(back.config, "type_vocab_size", 0) > 1
    (row,) = ours.framing.frame(TEXTS[:1], PAIRS[:1])
    given = tokenizer(TEXTS[0], PAIRS[0])
    assert given["input_ids"] == row.ids
    assert given.get("token_type_ids") == (row.segments if segments else None)
    rows = ours.row_maker.rows([ours_example(TEXTS[0])])
    torch.testing.assert_close(torch.from_numpy(ours.logits(rows, 99)[0]), logits)
    import_model(tmp_path / "out", tmp_path / "again")
    same(tmp_path / "plain", tmp_path / "again")


def ours_example(text: str) -> Any:
    from gnomon.text.labelled import Labelled

    return Labelled(1, text, None, ())


def test_dropout_of_the_head(tmp_path: Path) -> None:
    for name, values, found in (
        ("bert_texts", {"hidden_dropout_prob": 0.3}, 0.3),
        ("bert_texts", {"classifier_dropout": 0.25}, 0.25),
        ("distilbert_texts", {"seq_classif_dropout": 0.4}, 0.4),
        ("distilbert_texts", {}, 0.2),
        ("llama_texts", {}, 0.0),
    ):
        folder = tmp_path / f"{name}{found}"
        save(name, folder / "theirs", labels=LABELS, **values)
        import_model(folder / "theirs", folder / "ours")
        assert load_classifier(folder / "ours").network.config.dropout == found


def test_several_labels_keep_what_they_are(tmp_path: Path) -> None:
    import transformers

    theirs = save(
        "roberta_texts",
        tmp_path / "theirs",
        labels=LABELS,
        problem_type="multi_label_classification",
    )
    import_model(tmp_path / "theirs", tmp_path / "ours")
    ours = load_classifier(tmp_path / "ours")
    assert (ours.kind, ours.threshold) == ("multi", 0.5)
    found = ours.classify(["w1 w2"])[0].probabilities
    ids = torch.tensor([ours.framing.frame(["w1 w2"])[0].ids])
    with torch.no_grad():
        expected = torch.sigmoid(theirs(ids).logits[0])
    torch.testing.assert_close(torch.tensor(found), expected, rtol=0, atol=1e-6)
    ours.threshold, ours.label_counts, ours.max_length = 0.3, (5, 4, 3), 11
    save_classifier(ours, tmp_path / "plain")
    export_model(tmp_path / "plain", tmp_path / "out")
    config = transformers.AutoConfig.from_pretrained(tmp_path / "out")
    assert config.problem_type == "multi_label_classification"
    assert transformers.AutoTokenizer.from_pretrained(tmp_path / "out").model_max_length == 11
    import_model(tmp_path / "out", tmp_path / "again")
    again = load_classifier(tmp_path / "again")
    for name in ("kind", "threshold", "label_counts", "max_length", "takes_pairs", "labels"):
        assert getattr(again, name) == getattr(ours, name), name


def test_labels_that_were_renamed_here_have_their_new_names_there(tmp_path: Path) -> None:
    save("bert_texts", tmp_path / "theirs", labels=LABELS)
    import_model(tmp_path / "theirs", tmp_path / "ours")
    path = tmp_path / "ours" / "config.json"
    names = ["yes", "perhaps", "no"]
    path.write_text(json.dumps(json.loads(path.read_text()) | {"labels": names}))
    export_model(tmp_path / "ours", tmp_path / "back")
    back = json.loads((tmp_path / "back" / "config.json").read_text())
    assert back["id2label"] == dict(zip("012", names, strict=True))
    same(tmp_path / "theirs", tmp_path / "back")


def test_labels_without_names_are_called_as_transformers_calls_them(tmp_path: Path) -> None:
    save("bert_texts", tmp_path / "theirs")
    assert "id2label" not in json.loads((tmp_path / "theirs" / "config.json").read_text())
    import_model(tmp_path / "theirs", tmp_path / "ours", pairs=True)
    ours = load_classifier(tmp_path / "ours")
    assert ours.labels == ("LABEL_0", "LABEL_1")
    assert ours.takes_pairs
    assert len(ours.classify(["w1", "w2"], ["w3", "w4"])) == 2


def test_tensors_that_a_classifier_does_not_use_are_kept(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    save("roberta_texts", tmp_path / "theirs", labels=LABELS)
    path = tmp_path / "theirs" / "model.safetensors"
    state = load_file(path)
    width = state["classifier.dense.bias"].shape[0]
    state["roberta.pooler.dense.weight"] = torch.randn(width, width)  # as older programs wrote it
    state["roberta.pooler.dense.bias"] = torch.randn(width)
    save_file(state, path, {"format": "pt"})
    done = import_model(tmp_path / "theirs", tmp_path / "ours")
    assert done.kept == ("roberta.pooler.dense.bias", "roberta.pooler.dense.weight")
    export_model(tmp_path / "ours", tmp_path / "back")
    same(tmp_path / "theirs", tmp_path / "back")


@pytest.mark.parametrize(
    ("changes", "seen"),
    [
        ({"problem_type": "regression"}, "problem_type = 'regression'"),
        ({"id2label": {"0": "one"}}, "one output alone is a number"),
        ({"id2label": {"0": "a", "1": "a", "2": "b"}}, "a name of its own"),
        ({"id2label": {"0": "a", "1": "b", "3": "c"}}, "a name of its own"),
        ({"id2label": {"0": "a", "1": "b"}}, r"classifier\.weight: \(3, 16\), \(2, 16\) expected"),
        ({"architectures": ["AlbertForSequenceClassification"]}, "BertForSequenceClassification"),
        ({"gnomon": {"threshold": "half"}}, "gnomon is damaged"),
    ],
)
def test_what_is_no_classifier_is_refused_by_name(
    changes: dict[str, Any], seen: str, tmp_path: Path
) -> None:
    save("bert_texts", tmp_path / "theirs", labels=LABELS)
    path = tmp_path / "theirs" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    with pytest.raises(ModelError, match=seen):
        import_model(tmp_path / "theirs", tmp_path / "ours")
    assert not (tmp_path / "ours").exists()
    import_model(tmp_path / "theirs", tmp_path / "below", head=False)
    assert api.is_of(tmp_path / "below", "encoder")


def test_an_end_that_is_padding_too(tmp_path: Path) -> None:
    """transformers would look at the token before it."""
    save("llama_texts", tmp_path / "theirs", labels=LABELS, pad_token_id=3)
    with pytest.raises(ModelError, match="pad_token_id = 3 ends every text"):
        import_model(tmp_path / "theirs", tmp_path / "ours")
    save("llama_texts", tmp_path / "fine", labels=LABELS)
    import_model(tmp_path / "fine", tmp_path / "ours")
    ours = load_classifier(tmp_path / "ours")
    config = ours.network.network.config
    ours.network.network.config = replace(config, pad_id=3)  # type: ignore[assignment, type-var]
    save_classifier(ours, tmp_path / "plain")
    with pytest.raises(ModelError, match="pad_token_id = 3 ends every text"):
        export_model(tmp_path / "plain", tmp_path / "out")


def test_pairs_of_what_is_no_classifier(tmp_path: Path) -> None:
    save("bert_base", tmp_path / "theirs")
    with pytest.raises(RecipeError, match="taken in as a classifier"):
        import_model(tmp_path / "theirs", tmp_path / "ours", pairs=True)


# ---- of our own


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    lines = ["w1 w2 w3 w4 nothing known here", "w5 w6 w7 w8 w9 w10"] * 5
    return Tokenizer.train(lines, VocabularyConfig(vocab_size=320), (MASK,))


HEAD = {"pooling": "first", "dense": True, "activation": "tanh"}


def own(
    tokenizer: Tokenizer,
    kind: Any = "single",
    model: dict[str, Any] | None = None,
    takes_pairs: bool = False,
    **head: Any,
) -> Classifier:
    """A random classifier of ours."""
    changes = BERT_LIKE | {"embedding.num_segments": 2} if model is None else model
    config = changed(BASE, {**changes, "vocab_size": tokenizer.vocab_size}).without_head()
    torch.manual_seed(3)
    network = ClassifierNetwork(
        OurTransformer(config), ClassifierConfig(**head), 3, per_token=kind == "words"
    )
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.2)
    return Classifier(
        network.eval(),
        OwnFraming(tokenizer),
        ("a", "b", "c"),
        kind=kind,
        max_length=40,
        takes_pairs=takes_pairs,
    )


@pytest.mark.parametrize("kind", ["single", "multi", "words"])
def test_ours_there(kind: str, tokenizer: Tokenizer, tmp_path: Path) -> None:
    import transformers

    ours = own(tokenizer, kind, takes_pairs=kind == "single", **HEAD)
    save_classifier(ours, tmp_path / "ours")
    export_model(tmp_path / "ours", tmp_path / "out")
    name = f"AutoModelFor{'Token' if kind == 'words' else 'Sequence'}Classification"
    back = getattr(transformers, name).from_pretrained(tmp_path / "out").eval()
    pairs = PAIRS if kind == "single" else None
    compare(ours, back, pairs)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    rows = ours.framing.frame(TEXTS, pairs)
    assert theirs(TEXTS, pairs)["input_ids"] == [row.ids for row in rows]
    assert theirs.model_max_length == 40
    import_model(tmp_path / "out", tmp_path / "again")
    same(tmp_path / "ours", tmp_path / "again")
    again = load_classifier(tmp_path / "again")
    for one, other in zip(again.classify(TEXTS, pairs), ours.classify(TEXTS, pairs), strict=True):
        assert one == other


def test_a_decoder_of_ours_there(tokenizer: Tokenizer, tmp_path: Path) -> None:
    import transformers

    ours = own(tokenizer, model=LLAMA, pooling="last", bias=False)
    save_classifier(ours, tmp_path / "ours")
    export_model(tmp_path / "ours", tmp_path / "out")
    auto = transformers.AutoModelForSequenceClassification
    compare(ours, auto.from_pretrained(tmp_path / "out").eval())


def test_low_rank_additions_are_in_the_weights(tokenizer: Tokenizer, tmp_path: Path) -> None:
    import transformers

    ours = own(tokenizer, **HEAD)
    ours.network.add_lora(LoraConfig(rank=2))
    with torch.no_grad():
        for name, parameter in ours.network.named_parameters():
            if "low_rank" in name:
                parameter.copy_(torch.randn_like(parameter) * 0.3)
    save_classifier(ours, tmp_path / "ours")
    export_model(tmp_path / "ours", tmp_path / "out")
    auto = transformers.AutoModelForSequenceClassification
    back = auto.from_pretrained(tmp_path / "out").eval()
    compare(load_classifier(tmp_path / "ours"), back)
    ids = torch.tensor([ours.framing.frame(TEXTS[:1])[0].ids])
    with torch.no_grad():
        here: Tensor = ours.network(ids, torch.ones_like(ids).bool(), torch.zeros_like(ids))
        torch.testing.assert_close(back(ids).logits, here, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("head", "model", "seen", "mend"),
    [
        (
            {"pooling": "mean"},
            None,
            "BertForSequenceClassification, has not: .*pooling = 'mean' .there: 'first'",
            "--set classifier.dense=true --set classifier.pooling=first",
        ),
        ({**HEAD, "pooling": "max"}, None, "pooling = 'max'", "classifier.pooling=first"),
        ({**HEAD, "bias": False}, None, "bias = False", "classifier.bias=true"),
        ({"pooling": "last"}, LLAMA, "classifier.bias = True", "classifier.bias=false"),
        (HEAD, {"family": "encoder"}, "model.position", "architectures"),
    ],
    ids=["mean", "max", "no-bias", "decoder", "sinusoids"],
)
def test_what_no_class_computes(
    head: dict[str, Any],
    model: dict[str, Any] | None,
    seen: str,
    mend: str,
    tokenizer: Tokenizer,
    tmp_path: Path,
) -> None:
    save_classifier(own(tokenizer, model=model, **head), tmp_path / "ours")
    with pytest.raises(ModelError, match=seen) as told:
        export_model(tmp_path / "ours", tmp_path / "out")
    assert mend in str(told.value.mend)
    assert not (tmp_path / "out").exists()


def test_a_bilstm_is_refused(tokenizer: Tokenizer, tmp_path: Path) -> None:
    size = {"d_model": 8, "embedding_size": 8, "num_layers": 1}
    lstm = BiLSTM(BiLSTMConfig(vocab_size=tokenizer.vocab_size, **size))
    network = ClassifierNetwork(lstm, ClassifierConfig(), 2, per_token=False)
    save_classifier(Classifier(network, OwnFraming(tokenizer), ("a", "b")), tmp_path / "ours")
    with pytest.raises(ModelError, match="bidirectional LSTM"):
        export_model(tmp_path / "ours", tmp_path / "out")


def test_one_that_was_fine_tuned(tmp_path: Path) -> None:
    """Taken in, examined, judged, fine-tuned on labels of the same names, and out."""
    import transformers

    save("distilbert_texts", tmp_path / "theirs", labels=LABELS)
    import_model(tmp_path / "theirs", tmp_path / "ours")
    report = api.examine_target(tmp_path / "ours", Options())
    assert not [finding for finding in report.findings if finding.verdict == "fail"]
    data = tmp_path / "data.tsv"
    labels = list(LABELS.values())
    rows = [f"w{n % 30} w{n % 7}\t{labels[n % 3]}" for n in range(60)]
    data.write_text("\n".join(["text\tlabel", *rows]) + "\n")
    scores = api.evaluate_classifier(tmp_path / "ours", data=data).scores
    assert 0 <= scores[0].value <= 100
    settings = ["training.max_steps=2", "training.validate_every=2", "data.max_length=20"]
    settings.append(f"data.labels={json.dumps(labels)}")
    with pytest.raises(RecipeError, match="keeps its") as told:
        api.train("finetune", data=data, start_from=tmp_path / "ours", overrides=settings)
    wanted = str(told.value.mend).replace("--set ", "").split()
    assert wanted == [
        "classifier.pooling=first",
        "classifier.dense=true",
        "classifier.activation=relu",
    ]
    done = api.train(
        "finetune",
        data=data,
        start_from=tmp_path / "ours",
        overrides=[*settings, *wanted],
        run=tmp_path / "run",
    )
    api.export_model(done.run, tmp_path / "out")
    auto = transformers.AutoModelForSequenceClassification
    back = auto.from_pretrained(tmp_path / "out").eval()
    assert type(back).__name__ == "DistilBertForSequenceClassification"
    compare(gnomon.load(done.run), back)


@pytest.mark.parametrize("kind", ["pairs", "multi", "words"])
def test_every_kind_that_was_fine_tuned(kind: str, tmp_path: Path) -> None:
    """With low-rank additions; transformers' own pipeline says the same."""
    import transformers

    rows: list[dict[str, Any]] = [{"text": f"w{n % 30} w{n % 7}", "label": "a"} for n in range(60)]
    for number, row in enumerate(rows):
        some = ["a"] if number % 2 else ["a", "b"]
        row |= {"pair": f"w{number % 5}", "label": "ab"[number % 2]} if kind == "pairs" else {}
        row |= {"label": some} if kind == "multi" else {}
        row |= {"label": ["a", "b"]} if kind == "words" else {}
    data = tmp_path / "data.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    settings = ["data.pair=pair"] if kind == "pairs" else [f"data.labels_are={kind}"]
    if kind != "words":
        settings += ["classifier.pooling=first", "classifier.dense=true"]
    settings += ["lora.rank=2", "data.max_length=20"]
    settings += ["training.max_steps=3", "training.validate_every=3"]
    save("bert_masked", tmp_path / "theirs")
    import_model(tmp_path / "theirs", tmp_path / "base")
    done = api.train(
        "finetune",
        data=data,
        start_from=tmp_path / "base",
        overrides=settings,
        run=tmp_path / "run",
        check=False,
    )
    api.export_model(done.run, tmp_path / "out")
    ours = gnomon.load(done.run)
    task = f"{'token' if kind == 'words' else 'text'}-classification"
    there = transformers.pipeline(task, model=str(tmp_path / "out"))  # type: ignore[call-overload]
    compare(ours, there.model, PAIRS if kind == "pairs" else None)
    if kind == "pairs":
        said = [there({"text": TEXTS[0], "text_pair": PAIRS[0]})]
    else:
        said = there(TEXTS[0])
    (found,) = ours.classify(TEXTS[:1], PAIRS[:1] if kind == "pairs" else None)
    if kind == "words":
        assert tuple(each["entity"] for each in said) == found.labels
    else:
        best = max(found.probabilities or ())
        assert said[0]["score"] == pytest.approx(best, abs=1e-5)
        assert said[0]["label"] == ours.labels[(found.probabilities or ()).index(best)]
    import_model(tmp_path / "out", tmp_path / "again")
    again = load_classifier(tmp_path / "again")
    assert (again.kind, again.takes_pairs) == (ours.kind, ours.takes_pairs)
    assert again.label_counts == ours.label_counts
