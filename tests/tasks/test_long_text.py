"""Texts longer than any trained on: split, translated in parts, joined; short ones as ever."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import gnomon
from digits import TrainedRun
from gnomon.errors import ModelError, RecipeError
from gnomon.tasks import Translation, Translator, load_translator, save_translator
from gnomon.tasks.long_text import Plan, _best_choices
from gnomon.text import text_parts


@pytest.fixture
def translator(trained_run: TrainedRun) -> Translator:
    return gnomon.load(trained_run.path)


def test_the_longest_training_source_is_kept_with_the_model(
    translator: Translator, trained_run: TrainedRun, tmp_path: Path
) -> None:
    longest = max(len(ids) + 1 for ids in translator.tokenizers.source.encode(trained_run.sources))
    assert translator.longest_source == 9  # eight digits and the end of sentence
    assert longest == 9
    save_translator(translator, tmp_path / "copy")
    assert load_translator(tmp_path / "copy").longest_source == 9
    config = (tmp_path / "copy" / "config.json").read_text()
    (tmp_path / "copy" / "config.json").write_text(config.replace('source": 9', 'source": "x"'))
    with pytest.raises(ModelError, match="longest_source"):
        load_translator(tmp_path / "copy")


def test_a_short_text_is_translated_as_ever(translator: Translator) -> None:
    texts = ["12345678", "1, 2.", "", " 12 "]
    assert translator.translate(texts) == translator.translate(texts, split="never")
    with_long = translator.translate([*texts, "1234. " * 20])
    assert [item.text for item in with_long[:4]] == [
        item.text for item in translator.translate(texts)
    ]
    assert [item.num_parts for item in with_long] == [1, 1, 1, 1, 20]


def test_more_sentences_than_training_lines_held_are_translated_apart(
    translator: Translator, tmp_path: Path
) -> None:
    assert translator.familiarity is not None
    assert translator.familiarity.most_sentences == 1
    (found,) = translator.translate(["1. 2."])
    assert found.num_parts == 2
    save_translator(translator, tmp_path)
    assert load_translator(tmp_path).translate(["1. 2."])[0].num_parts == 2
    translator.familiarity.most_sentences = 2
    assert [item.num_parts for item in translator.translate(["1. 2.", "1. 2. 3"])] == [1, 3]
    translator.familiarity.most_sentences = None  # a model of an older gnomon
    assert [item.num_parts for item in translator.translate(["1. 2."])] == [1]


def test_a_long_text_is_the_translations_of_its_sentences(translator: Translator) -> None:
    text = "1234.  4567!\t890? 12."
    parts = ["1234.", "4567!", "890?", "12."]
    apart = translator.translate(parts)
    (found,) = translator.translate([text])
    one, two, three, four = (" ".join(item.text.split()) for item in apart)
    assert " ".join(found.text.split()) == " ".join(" ".join([one, two, three, four]).split())
    if all([one, two]):
        assert f"{apart[0].text.strip()}  {apart[1].text.strip()}\t" in found.text
    for name in ("log_prob", "score"):
        total = sum(getattr(item, name) for item in apart)
        assert getattr(found, name) == pytest.approx(total, rel=1e-4)
    assert found.num_tokens == sum(item.num_tokens for item in apart)
    assert (found.num_parts, found.num_divided) == (4, 0)
    assert found.truncated == any(item.truncated for item in apart)
    (whole,) = translator.translate([text], split="never")
    assert whole.num_parts == 1
    (always,) = translator.translate(["1. 2."], split="always")
    assert always.num_parts == 2


def test_sentences_that_are_too_long_are_divided_and_every_part_is_within_the_model(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    decode = translator._decode
    monkeypatch.setattr(
        translator,
        "_decode",
        lambda sources, *rest, **named: (
            seen.extend(map(len, sources)) or decode(sources, *rest, **named)
        ),
    )
    (found,) = translator.translate(["1234567 " * 40 + "9" * 100], beam=1)
    assert max(seen) + 1 <= 9
    assert found.num_divided == found.num_parts > 40
    assert len(found.text.splitlines()) == 1


def test_one_truncated_part_makes_the_whole_truncated(translator: Translator) -> None:
    (found,) = translator.translate(
        ["1234. 567. 89012."], beam=1, max_length_factor=0.0, max_length_offset=1
    )
    assert found.num_parts == 3
    assert found.truncated
    plan = Plan(["1. 2. 3."], translator.tokenizers.source, "always", None, None)
    apart = [Translation(text, -1, -1, 2, text == "2.") for text in plan.texts]
    assert [item.truncated for item in apart] == [False, True, False]
    (joined,) = plan.joined(apart, [None])
    assert joined.truncated
    assert joined.text == "1. 2. 3."


def test_learned_positions_are_never_overrun(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    translator.longest_source = None
    monkeypatch.setattr(type(translator.model.config), "max_positions", lambda self: 6)
    (found,) = translator.translate(["123456789"])
    assert found.num_parts == 2


def test_nbest_of_a_split_text(translator: Translator) -> None:
    (found,) = translator.translate(["1234. 567. 89012."], beam=3, nbest=3)
    outputs = [found, *found.alternatives]
    assert len(outputs) == 3
    assert [item.score for item in outputs] == sorted((o.score for o in outputs), reverse=True)
    assert all(item.num_parts == 3 for item in outputs)

    def option(score: float, *others: float) -> Translation:
        rest = tuple(Translation(f"t{s}", s, s, 1, False) for s in others)
        return Translation(f"t{score}", score, score, 1, False, None, rest)

    choices = _best_choices([option(-1, -5, -9), option(-2, -2.5, -3)])
    assert [sum(item.score for item in chosen) for chosen in choices] == [-3, -3.5, -4]


def test_a_text_of_ten_thousand_words_is_planned_at_once(translator: Translator) -> None:
    text = "The dog runs to Mr. Miller's house, doesn't it? " * 1_100
    plan = Plan([text], translator.tokenizers.source, "auto", 60, None)
    assert plan.needed
    lengths = [len(ids) + 1 for ids in translator.tokenizers.source.encode(plan.texts)]
    assert max(lengths) <= 60
    assert "".join("".join(plan.texts).split()) == "".join(text.split())


def test_settings(translator: Translator) -> None:
    with pytest.raises(RecipeError, match="always"):
        translator.translate(["1"], split="sometimes")  # type: ignore[arg-type]
    assert not Plan(["1. 2." * 50], translator.tokenizers.source, "auto", None, None).needed
    assert torch.is_grad_enabled()
    assert [part.text for part in text_parts("1. 2.", lambda t: [1] * len(t), None)] == ["1.", "2."]
