"""Language models: packed training, generation, streaming, stop strings, scores, continuation."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import gnomon
from gnomon import api
from gnomon.api.jobs import job_of
from gnomon.errors import DataError, ModelError, RecipeError
from gnomon.recipes import load_recipe
from gnomon.tasks import LanguageModel
from gnomon.tasks.language_modelling import LanguageModellingTask
from gnomon.tasks.packing import NO_LABEL, PackedRows
from gnomon.tasks.text_stream import TextStream
from small_training import check_killed

RECIPE = """
name = "letters"
task = "language_model"
[data]
context = 32
[tokenizer]
vocab_size = 400
[model]
family = "decoder"
d_model = 32
num_decoder_layers = 2
attention.num_heads = 2
feedforward.size = 64
norm.placement = "pre"
dropout = 0.1
position.kind = "rope"
[objective]
label_smoothing = 0.0
[schedule]
kind = "constant"
peak = 5e-3
warmup_steps = 10
[training]
tokens_per_batch = 512
max_steps = 150
validate_every = 50
checkpoint_every = 50
log_every = 50
precision = "fp32"
"""
WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight"]


def counting(count: int, seed: int = 0) -> list[str]:
    """Lines that count on from a number, ended by a dot."""
    rng = random.Random(seed)
    found = []
    for _ in range(count):
        start = rng.randrange(len(WORDS) - 2)
        found.append(" ".join(WORDS[start : rng.randint(start + 2, len(WORDS))]) + ".")
    return found


def train(folder: Path, *overrides: str, **options: Any) -> api.Training:
    recipe, data = folder / "r.toml", folder / "text.txt"
    recipe.write_text(options.pop("recipe", RECIPE))
    if not data.exists():
        data.write_text("\n".join(counting(800)) + "\n")
        (folder / "valid.txt").write_text("\n".join(counting(50, seed=1)) + "\n")
    run = options.pop("run", folder / "run")
    valid = folder / "valid.txt"
    return api.train(recipe, data=data, valid_data=valid, overrides=overrides, run=run, **options)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train(tmp_path_factory.mktemp("language")).run


@pytest.fixture(scope="module")
def model(run: Path) -> LanguageModel:
    found = gnomon.load(run)
    assert isinstance(found, LanguageModel)
    return found


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    """With learned positions, which come to an end after 32 tokens."""
    folder = tmp_path_factory.mktemp("learned")
    overrides = ["model.position.kind=learned", "model.position.max_length=32"]
    found: LanguageModel = gnomon.load(train(folder, *overrides, "training.max_steps=50").run)
    return found


def test_angles_by_length_are_each_texts_own(run: Path, tmp_path: Path) -> None:
    api.extend(run, tmp_path / "dynamic", method="dynamic_ntk", trained_length=3)
    dynamic = gnomon.load(tmp_path / "dynamic")
    texts = ["one two", "three four five six seven eight.", "five six seven."]
    together = [found.log_prob for found in dynamic.score(texts)]
    alone = [dynamic.score([text])[0].log_prob for text in texts]
    assert together == pytest.approx(alone, rel=1e-6)
    plain = [found.log_prob for found in gnomon.load(run).score(texts)]
    assert together != pytest.approx(plain, rel=1e-3)


# -- packing -----------------------------------------------------------------------------------


def packed(folder: Path, texts: list[str], context: int, seed: int = 3) -> PackedRows:
    (folder / "text.txt").write_text("\n".join(texts) + "\n")
    (folder / "r.toml").write_text(RECIPE)
    recipe = load_recipe(
        folder / "r.toml",
        [
            f"data.context={context}",
            "data.holdout=0.0",
            f"training.seed={seed}",
            "training.tokens_per_batch=200000",
        ],
        {"data.train": str(folder / "text.txt")},
    )
    job = job_of(recipe, lambda message: None)
    job.prepare(folder / "cache", [], None)
    task = job.task
    assert isinstance(task, LanguageModellingTask)
    return task.rows


@pytest.mark.parametrize("context", [7, 32, 100_000])
def test_an_epoch_predicts_every_token_once_and_none_across_documents(
    tmp_path: Path, context: int
) -> None:
    texts = counting(50)
    rows = packed(tmp_path, texts, context)
    vocabulary = rows.store.vocabulary
    wanted = sorted(
        pair
        for ids in vocabulary.encode(texts)
        for pair in pairwise([vocabulary.begin_id, *ids, vocabulary.end_id])
    )
    for epoch in (0, 1, 2):
        found = []
        for part in rows.epoch(epoch, 3):
            for spec in part:
                batch = rows.collate(spec)
                labels = batch.target[:, 1:]
                keep = labels != NO_LABEL
                found += list(zip(batch.inputs[keep].tolist(), labels[keep].tolist(), strict=True))
        assert sorted(found) == wanted


def test_epochs_differ_and_are_a_function_of_seed_and_number(tmp_path: Path) -> None:
    rows = packed(tmp_path, counting(50), 16)
    again = PackedRows(rows.store, 16, rows.seed)

    def inputs(of: PackedRows, number: int) -> list[list[int]]:
        return [
            row
            for part in of.epoch(number, 2)
            for spec in part
            for row in of.collate(spec).inputs.tolist()
        ]

    assert inputs(rows, 1) == inputs(again, 1)
    assert inputs(rows, 1) != inputs(rows, 2)
    assert {tuple(row) for row in inputs(rows, 1)} != {tuple(row) for row in inputs(rows, 0)}


def test_packed_loss_is_that_of_the_documents_alone(model: LanguageModel) -> None:
    """Where rows are so long that no document is cut."""
    texts = counting(40, seed=5)
    alone = -math.fsum(score.log_prob for score in model.score(texts))
    store_rows = _rows_of(model, texts)
    batch = store_rows.collate(next(iter(store_rows.in_order(1))))
    assert batch.documents is not None
    keep = batch.target[:, 1:] != NO_LABEL
    with torch.no_grad():
        hidden = model.model.decode(batch.inputs, documents=batch.documents)
        logits = model.model.project(hidden[keep])
    labels = batch.target[:, 1:][keep]
    loss = torch.nn.functional.cross_entropy(logits.double(), labels, reduction="sum").item()
    assert loss == pytest.approx(alone, rel=1e-5)


class _MemoryStore:
    """A stream in memory, as `PackedRows` reads it."""

    def __init__(self, model: LanguageModel, texts: list[str]) -> None:
        self.vocabulary = model.vocabulary
        rows = [[self.vocabulary.begin_id, *ids] for ids in self.vocabulary.encode(texts)]
        self.ids = np.array([one for row in rows for one in row])

    def __len__(self) -> int:
        return len(self.ids)

    def release(self) -> None:
        pass


def _rows_of(model: LanguageModel, texts: list[str]) -> PackedRows:
    return PackedRows(_MemoryStore(model, texts), 1 << 20)  # type: ignore[arg-type]


# -- training ------------------------------------------------------------------------------------


def test_what_can_be_learned_is(model: LanguageModel) -> None:
    (found,) = model.generate(["three four"])
    assert found.text.startswith(" five")
    assert found.text.endswith(".")
    assert found.finish == "end"


def test_a_killed_training_continues_bit_for_bit(tmp_path: Path) -> None:
    short = ("training.max_steps=12", "training.checkpoint_every=4", "training.validate_every=6")
    check_killed(train, tmp_path, *short)


def test_validation_measures_what_it_says(run: Path) -> None:
    lines = (run / "metrics.jsonl").read_text().splitlines()
    found = [json.loads(line) for line in lines]
    metrics = next(one["metrics"] for one in reversed(found) if one["kind"] == "validation")
    assert metrics["perplexity"] == pytest.approx(math.exp(metrics["nll"]))
    assert 0 < metrics["bits_per_byte"] == pytest.approx(metrics["bits_per_character"])


def test_memory_of_a_long_text_is_not_held(tmp_path: Path) -> None:
    rows = packed(tmp_path, counting(50), 16)
    assert not rows.store.ids.flags.owndata  # mapped from the disk


# -- generation ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "search",
    [{}, {"sample": True, "temperature": 1.5}, {"sample": True, "nbest": 3}, {"beam": 3}],
    ids=["greedy", "sample", "samples", "beam"],
)
def test_neighbours_and_batches_change_nothing(
    model: LanguageModel, search: dict[str, Any]
) -> None:
    prompts = ["", "two", "one two three four five six", "seven", "three four five"]
    whole = model.generate(prompts, max_tokens=12, **search)
    one_by_one = [
        model.generate([prompt], max_tokens=12, first=place, **search)[0]
        for place, prompt in enumerate(prompts)
    ]
    for one, other in zip(whole, one_by_one, strict=True):
        assert (one.text, one.finish) == (other.text, other.finish)
        assert one.log_prob == pytest.approx(other.log_prob, abs=1e-4)
        assert [a.text for a in one.alternatives] == [a.text for a in other.alternatives]


@pytest.mark.parametrize("search", [{}, {"sample": True, "temperature": 2.0}])
@pytest.mark.parametrize("stop", [[], ["ve s"], ["x", "t"]])
def test_a_stream_is_the_whole(
    model: LanguageModel, search: dict[str, Any], stop: list[str]
) -> None:
    for place, prompt in enumerate(["", "one", "two three ", "six"]):
        stream = model.stream(prompt, place=place, max_tokens=20, stop=stop, **search)
        assert stream.result is None
        pieces = list(stream)
        (whole,) = model.generate([prompt], first=place, max_tokens=20, stop=stop, **search)
        assert "".join(pieces) == whole.text
        assert stream.result == replace(whole, log_prob=stream.result.log_prob)
        assert all(pieces)


def test_a_stop_string_ends_the_text_wherever_tokens_end(model: LanguageModel) -> None:
    (whole,) = model.generate(["one two"])
    for stop in ("five", "ve si", "r", " three four"):
        (found,) = model.generate(["one two"], stop=[stop])
        assert found.text == whole.text.split(stop)[0]
        assert found.finish == "stop"
        assert found.num_tokens < whole.num_tokens
    (beamed,) = model.generate(["one two"], stop=["five"], beam=2)
    assert "five" not in beamed.text


def test_a_beam_ends_at_each_of_several_ends(model: LanguageModel) -> None:
    """Not only a greedy text does; what would follow counts for nothing."""
    before, five = (
        model.vocabulary.encode([text])[0] for text in ("three four", "three four five")
    )
    assert five[:-1] == before
    other = LanguageModel(model.model, model.vocabulary, context=model.context, ends=[five[-1]])
    (score,) = model.score(["three four five"])
    for beam in (1, 3):
        (found,) = other.generate(["three four"], beam=beam)
        assert (found.text, found.finish, found.num_tokens) == ("", "end", 1)
        assert found.log_prob == pytest.approx(score.token_log_probs[len(before)], abs=1e-5)


def test_scores_are_what_generation_says(model: LanguageModel) -> None:
    """With the key-value cache as without it."""
    (found,) = model.generate(["one two three"])
    (whole,) = model.score(["one two three" + found.text])
    alone = len(model.vocabulary.encode(["one two three"])[0])
    assert math.fsum(whole.token_log_probs[alone:]) == pytest.approx(found.log_prob, abs=1e-4)


def test_max_tokens(model: LanguageModel) -> None:
    (found,) = model.generate(["one"], max_tokens=2)
    assert (found.num_tokens, found.finish) == (2, "length")


def test_the_end_of_the_context_is_told_or_slid_over(learned: LanguageModel) -> None:
    kept = {"min_length": 60}  # the text does not end before
    (found,) = learned.generate(["one"], max_tokens=60, **kept)
    assert found.finish == "context"
    assert found.num_tokens + len(learned.vocabulary.encode(["one"])[0]) + 1 == 33
    (slid,) = learned.generate(["one"], max_tokens=60, slide=True, **kept)
    assert slid.num_tokens > found.num_tokens
    assert slid.text.startswith(found.text)
    pieces = list(learned.stream("one", max_tokens=60, slide=True, **kept))
    assert "".join(pieces) == slid.text
    long = " ".join(WORDS * 5)
    with pytest.raises(DataError, match="positions reach"):
        learned.generate([long])
    with pytest.raises(DataError, match="prompt 258"):
        learned.generate(["one", long], first=256)
    assert learned.generate([long], slide=True, max_tokens=3)[0].num_tokens <= 3


def test_no_piece_is_half_a_character(model: LanguageModel) -> None:
    text = "one 🙂 été 好"
    (ids,) = model.vocabulary.encode([text])
    stream = TextStream(model.vocabulary, [model.vocabulary.begin_id], ["stop"])
    pieces = [stream.push(token) for token in ids] + [stream.finish()]
    assert "".join(pieces) == text
    assert not any("\ufffd" in piece for piece in pieces)
    assert len(ids) > len([piece for piece in pieces if piece])  # some came as bytes


def test_blanks_between_prompt_and_output_are_kept(model: LanguageModel) -> None:
    (found,) = model.generate(["three"])
    assert found.text.startswith(" four")


def test_long_texts_are_scored_in_windows(learned: LanguageModel) -> None:
    text = " ".join(WORDS * 6)
    (found,) = learned.score([text])
    assert found.num_tokens == len(learned.vocabulary.encode([text])[0]) + 1 > 32
    assert all(log_prob < 0 for log_prob in found.token_log_probs)
    (head,) = learned.score([" ".join(WORDS)])
    shared = head.num_tokens - 1
    np.testing.assert_allclose(
        found.token_log_probs[:shared], head.token_log_probs[:shared], atol=1e-5
    )


def test_slips_are_told(model: LanguageModel, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="stop string"):
        model.generate(["one"], stop=[""])
    with pytest.raises(RecipeError, match="max_tokens"):
        model.generate(["one"], max_tokens=0)
    with pytest.raises(RecipeError, match="between 1 and 100,000"):
        model.generate(["one"], max_tokens=10**11)
    with pytest.raises(RecipeError, match="stream"):
        model.stream("one", beam=2)
    with pytest.raises(DataError, match="chat template"):
        model.chat_prompt([{"role": "user", "content": "hello"}])
    with pytest.raises(RecipeError, match="family decoder"):
        train(tmp_path, "model.family=encoder")
    with pytest.raises(ModelError, match="task translation"):
        api.load_for("translation", train(tmp_path, "training.max_steps=1").run)


def test_fine_tuning_keeps_network_and_vocabulary(tmp_path: Path, run: Path) -> None:
    found = train(
        tmp_path, "training.max_steps=2", "model.d_model=64", start_from=run, run=tmp_path / "more"
    )
    tuned = gnomon.load(found.run)
    assert tuned.model.config.d_model == 32
    assert tuned.vocabulary.fingerprint == gnomon.load(run).vocabulary.fingerprint


def test_fine_tuning_keeps_how_the_model_ends_and_samples(tmp_path: Path) -> None:
    """Several ends, sampling and the chat template of a model that was taken in; also resumed."""
    folder = chat_model(tmp_path)
    base = gnomon.load(folder)
    assert base.ends and base.search.sample and base.chat_template
    done = train(tmp_path, "training.max_steps=2", start_from=folder, check=False)
    job: Any = job_of(done.recipe, lambda message: None)
    # As a run that goes on does.
    job.prepare(tmp_path / "cache", [api.model_folder(done.run)], None)
    job.task.save(tmp_path / "resumed")
    for path in (done.run, tmp_path / "resumed"):
        tuned = gnomon.load(path)
        assert tuned.ends == base.ends, path
        assert tuned.search == base.search, path
        assert tuned.chat_template == base.chat_template, path
    api.export_model(done.run, tmp_path / "out")
    written = json.loads((tmp_path / "out" / "generation_config.json").read_text())
    assert written["eos_token_id"] == [3, 7]
    api.import_model(tmp_path / "out", tmp_path / "again")
    again = gnomon.load(tmp_path / "again")
    assert (again.ends, again.search) == (base.ends, base.search)
    assert again.chat_template == base.chat_template


def chat_model(folder: Path) -> Path:
    """A small Llama with two ends, sampling settings and a template, taken in."""
    from interop.zoo import save

    save("llama", folder / "theirs")
    generation = {"eos_token_id": [3, 7], "do_sample": True, "temperature": 0.7, "top_k": 9}
    (folder / "theirs" / "generation_config.json").write_text(json.dumps(generation))
    (folder / "theirs" / "chat_template.jinja").write_text(CHAT)
    api.import_model(folder / "theirs", folder / "ours")
    return folder / "ours"


CHAT = """{{ bos_token }}{% for message in messages %}{% if message.role == 'tool' %}
{{ raise_exception('no tools') }}{% endif %}[{{ message.role }}] {{ message.content }}{{eos_token}}
{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"""


def test_a_conversation_is_written_by_the_template(
    model: LanguageModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model, "chat_template", CHAT)
    prompt = model.chat_prompt([{"role": "user", "content": "one"}])
    assert prompt == "[user] one</s>\n[assistant]"  # <s> is put there when it is read
    with pytest.raises(DataError, match="no tools"):
        model.chat_prompt([{"role": "tool", "content": "one"}])


@pytest.mark.parametrize(
    "template",
    ["{{ ''.__class__.__mro__[1].__subclasses__() }}", "{{ messages.append(1) }}", "{% broken"],
)
def test_a_template_reaches_nothing(
    model: LanguageModel, monkeypatch: pytest.MonkeyPatch, template: str
) -> None:
    monkeypatch.setattr(model, "chat_template", template)
    with pytest.raises(DataError, match="chat template"):
        model.chat_prompt([{"role": "user", "content": "one"}])
