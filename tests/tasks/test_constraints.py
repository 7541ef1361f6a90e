"""Prefixes, banned and required phrases and terminology, from text to text."""

from __future__ import annotations

import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gnomon.decoding import SearchConfig
from gnomon.errors import DataError, ModelError, RecipeError
from gnomon.model import (
    AttentionConfig,
    FeedForwardConfig,
    HeadConfig,
    Transformer,
    TransformerConfig,
)
from gnomon.tasks import Terminology, Translator, ensemble
from gnomon.tasks.banned import BannedPhrases
from gnomon.tasks.prefix import ForcedPrefix
from gnomon.tasks.spelling import Spelling
from gnomon.text import EOS_ID, Tokenizer, TokenizerConfig, TokenizerPair

TEXT = [
    "Ein Hund läuft durch den Park.",
    "Der Hund und die Hunde laufen.",
    "Eine Katze schläft, die Katzen schlafen nicht.",
    "Zwei Kinder spielen im Park mit dem Hund.",
    "狗在公园里跑。猫在睡觉。",
] * 5


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(TEXT, TokenizerConfig(vocab_size=420))


def random_translator(tokenizer: Tokenizer, seed: int = 1) -> Translator:
    torch.manual_seed(seed)
    config = TransformerConfig(
        vocab_size=tokenizer.vocab_size,
        d_model=32,
        num_encoder_layers=1,
        num_decoder_layers=2,
        attention=AttentionConfig(num_heads=4),
        feedforward=FeedForwardConfig(size=48),
        head=HeadConfig(bias=True),
    )
    model = Transformer(config)
    bytes_ = [
        token
        for token, piece in enumerate(Spelling(tokenizer).pieces)
        if len(piece or ()) == 1 and len(piece[0]) > 1
    ]
    with torch.no_grad():
        model.table("output").mul_(3)
        assert model.head is not None and model.head.bias is not None
        model.head.bias[bytes_] = -20.0  # words rather than broken characters
        model.head.bias[EOS_ID] = 3.0
    search = SearchConfig(beam=4, max_length_factor=0, max_length_offset=30)
    return Translator(model, TokenizerPair(tokenizer, tokenizer), search)


@pytest.fixture(scope="module")
def translator(tokenizer: Tokenizer) -> Translator:
    return random_translator(tokenizer)


class TestPrefix:
    @pytest.mark.parametrize("how", [{"beam": 1}, {"beam": 4}, {"sample": True, "nbest": 3}])
    def test_outputs_begin_with_it_wherever_it_ends(
        self, translator: Translator, how: dict[str, object]
    ) -> None:
        text = "Der Hund und die Katzen"
        prefixes = [text[:end] for end in range(1, len(text) + 1)] + ["狗在公", None, " "]
        found = translator.translate(["Park"] * len(prefixes), prefixes=prefixes, **how)
        for prefix, result in zip(prefixes, found, strict=True):
            for output in (result, *result.alternatives):
                assert output.text.startswith((prefix or "").strip())
        free = translator.translate(["Park"], **how)[0].text
        assert found[-2].text == free or "sample" in how

    def test_a_word_may_go_on_in_the_piece_the_model_knows(self, tokenizer: Tokenizer) -> None:
        spelling = Spelling(tokenizer)
        whole = spelling.pieces.index(" Hund")
        (cut,) = tokenizer.encode(["Ein Hun"])
        assert whole not in cut  # or this test shows nothing
        automaton = ForcedPrefix(cut, spelling)
        state = automaton.start
        for token in tokenizer.encode(["Ein"])[0]:
            assert automaton.allowed(state)[token]
            state = automaton.after(state, token)
        assert automaton.allowed(state)[whole]
        assert automaton.is_free(automaton.after(state, whole))
        assert not automaton.allowed(state)[EOS_ID]

    def test_its_log_probability_counts(self, translator: Translator) -> None:
        (free,) = translator.translate(["Park"], beam=1)
        (same,) = translator.translate(["Park"], beam=1, prefixes=[free.text[:3]])
        assert same.log_prob <= free.log_prob + 1e-4

    def test_one_too_long_is_refused_with_its_line(self, translator: Translator) -> None:
        with pytest.raises(DataError, match=r"line 2.*\n.*tokens"):
            translator.translate(["a", "b"], prefixes=[None, "Hund " * 40])


class TestBanned:
    @settings(max_examples=200, deadline=None)
    @given(st.data())
    def test_agrees_with_a_regular_expression_over_whole_texts(
        self, tokenizer: Tokenizer, data: st.DataObject
    ) -> None:
        phrases = data.draw(
            st.lists(
                st.sampled_from(["Hund", "Katze", "die Katzen", "H", "n", ".", "狗", "und", "é"]),
                max_size=3,
            )
        )
        spelling = Spelling(tokenizer)
        useful = [
            token
            for token, piece in enumerate(spelling.pieces)
            if piece and set(piece) <= set(" HundeKatzi.,狗在")
        ]
        tokens = data.draw(st.lists(st.sampled_from(useful), max_size=8))
        automaton = BannedPhrases(phrases, spelling, EOS_ID)
        state, passes = automaton.start, True
        for token in [*tokens, EOS_ID]:
            passes = passes and bool(automaton.allowed(state)[token])
            state = automaton.after(state, token)
        text = "".join("".join(spelling.pieces[token] or ()) for token in tokens)
        word = r"[^\W狗在]"
        edges = [
            (f"(?<!{word})" if p[0].isalpha() and p[0] != "狗" else "")
            + re.escape(p)
            + (f"(?!{word})" if p[-1].isalpha() and p[-1] != "狗" else "")
            for p in phrases
        ]
        assert passes == (not any(re.search(edge, text) for edge in edges))

    def test_no_output_holds_one(self, translator: Translator) -> None:
        texts = ["Hund Park", "Katze", "laufen", "Kinder"]
        how = {"sample": True, "nbest": 20, "temperature": 0.7}
        outputs = [
            each.text
            for result in translator.translate(texts, **how)
            for each in (result, *result.alternatives)
        ]
        words = sorted({w for text in outputs for w in re.findall(r"[^\W\d_]{2,}", text)})[:15]
        assert len(words) > 5
        found = translator.translate(texts, banned=words, **how)
        for result in found:
            for each in (result, *result.alternatives):
                assert not set(re.findall(r"\w+", each.text)) & set(words)

    def test_what_is_asked_for_must_not_be_banned(self, translator: Translator) -> None:
        with pytest.raises(DataError, match="banned"):
            translator.translate(["a"], banned=["Hund"], required=[["der Hund"]])
        with pytest.raises(DataError, match="banned"):
            translator.translate(["a"], banned=["Hund"], prefixes=["Ein Hund läuft"])


class TestRequired:
    def test_every_output_holds_all(self, translator: Translator) -> None:
        required = [["Hund", "im Park"], [], ["Katze"], ["狗", "läuft durch", "Ein"]]
        found = translator.translate(["Kinder"] * 4, required=required, nbest=3)
        for wanted, result in zip(required, found, strict=True):
            for output in (result, *result.alternatives):
                assert all(phrase in output.text for phrase in wanted)
        assert found[1].text == translator.translate(["Kinder"], nbest=3)[0].text

    @pytest.mark.parametrize("search", [{"beam": 1}, {"sample": True}])
    def test_it_needs_a_beam(self, translator: Translator, search: dict[str, object]) -> None:
        with pytest.raises(RecipeError, match="required needs"):
            translator.translate(["a"], required=[["Hund"]], **search)

    def test_too_much_for_the_limit_is_refused_with_its_line(self, translator: Translator) -> None:
        with pytest.raises(DataError, match=r"line 8.*must fit"):
            translator.translate(
                ["a"], required=[["Hund läuft durch den Park"]], max_length_offset=3, first=7
            )

    def test_what_the_vocabulary_cannot_write_is_refused(self) -> None:
        plain = Tokenizer.train(TEXT, TokenizerConfig(vocab_size=120, byte_fallback=False))
        with pytest.raises(DataError, match="able to write"):
            random_translator(plain).translate(["a"], required=[["Ωmega"]])

    def test_lists_must_fit_the_texts(self, translator: Translator) -> None:
        with pytest.raises(RecipeError, match="one entry per text"):
            translator.translate(["a", "b"], required=[["Hund"]])
        with pytest.raises(RecipeError, match="list of phrases for each"):
            translator.translate(["a"], required=["Hund"])
        with pytest.raises(RecipeError, match="prefixes must be a list"):
            translator.translate(["a"], prefixes="Ein")


class TestTerminology:
    TERMS = (("machine", "Maschine"), ("machine learning", "Maschinelernen"), ("狗", "Hund"))

    def test_whole_words_longest_first(self) -> None:
        terms = Terminology(self.TERMS)
        assert terms.required("a machine learning machine.") == ["Maschinelernen", "Maschine"]
        assert terms.required("machines, Machine, machine_1") == []
        assert terms.required("公园里的狗跑") == ["Hund"]
        assert Terminology(self.TERMS, ignore_case=True).required("MACHINE") == ["Maschine"]

    def test_terms_are_required(self, translator: Translator) -> None:
        terms = Terminology([("dog", "Hund"), ("cat", "Katze")])
        found = translator.translate(["a dog", "a cat", "nothing"], terminology=terms)
        assert "Hund" in found[0].text and "Katze" in found[1].text
        assert found[2].text == translator.translate(["nothing"])[0].text

    def test_a_bad_file_is_named(self, tmp_path) -> None:  # type: ignore[no-untyped-def]
        file = tmp_path / "terms.tsv"
        file.write_text("dog\tHund\n\ncat Katze\n", encoding="utf-8")
        with pytest.raises(DataError, match="line 3"):
            Terminology.load(file)
        with pytest.raises(DataError, match="one translation"):
            Terminology([("dog", "Hund"), ("dog", "Köter")])


def test_everything_at_once_does_not_depend_on_the_batch(translator: Translator) -> None:
    texts = ["Hund Park", "Katze", "laufen im Park mit dem Hund", "x", ""]
    wishes = {
        "prefixes": ["Ein", None, "Der Hu", "", "Ein"],
        "required": [["Katze"], ["im Park", "Hund"], [], ["laufen"], ["Hund"]],
    }
    shared = {
        "banned": ["und", "nicht"],
        "coverage_penalty": 0.2,
        "repetition_penalty": 1.2,
        "no_repeat_ngram": 3,
        "min_length": 4,
        "nbest": 2,
        "beam": 4,
    }
    together = translator.translate(texts, **wishes, **shared)
    assert together[4].text == ""
    for i, text in enumerate(texts):
        own = {name: [values[i]] for name, values in wishes.items()}
        (alone,) = translator.translate([text], **own, **shared)
        assert alone.text == together[i].text
        assert alone.score == pytest.approx(together[i].score, rel=1e-4)


def test_samples_depend_on_the_place_in_the_whole_input_only(translator: Translator) -> None:
    texts = ["Hund", "Hund", "Katze läuft", "Park"]
    how = {"sample": True, "seed": 3, "temperature": 1.5}
    together = [result.text for result in translator.translate(texts, **how)]
    assert together[0] != together[1]
    for i, text in enumerate(texts):
        (alone,) = translator.translate([text], first=i, **how)
        assert alone.text == together[i]


def test_settings_without_effect_are_refused(translator: Translator) -> None:
    with pytest.raises(RecipeError, match="temperature has no effect"):
        translator.translate(["a"], temperature=0.5)
    with pytest.raises(RecipeError, match="batch_tokens"):
        translator.translate(["a"], batch_tokens=0)


class TestEnsemble:
    @pytest.mark.parametrize("combination", ["mean", "log_mean"])
    def test_of_one_model_twice_it_is_that_model(
        self, translator: Translator, combination: str
    ) -> None:
        twice = ensemble([translator, translator], combination)  # type: ignore[arg-type]
        (one,), (both,) = (each.translate(["Hund Park"]) for each in (translator, twice))
        assert both.text == one.text
        assert both.log_prob == pytest.approx(one.log_prob, rel=1e-4)

    @pytest.mark.parametrize("combination", ["mean", "log_mean"])
    def test_the_log_probability_is_that_of_the_combined_distribution(
        self, tokenizer: Tokenizer, translator: Translator, combination: str
    ) -> None:
        other = random_translator(tokenizer, seed=2)
        both = ensemble([translator, other], combination)  # type: ignore[arg-type]
        (score,) = both.score(["Hund Park"], ["Der Hund läuft"])
        (source,) = tokenizer.encode(["Hund Park"])
        (target,) = tokenizer.encode(["Der Hund läuft"])
        ids = torch.tensor([[2, *target, EOS_ID]])
        with torch.no_grad():
            first, second = (
                each.model.eval()(torch.tensor([[*source, EOS_ID]]), ids[:, :-1]).softmax(-1)
                for each in (translator, other)
            )
        mixed = (first + second) / 2 if combination == "mean" else (first * second).sqrt()
        mixed = mixed / mixed.sum(-1, keepdim=True)
        total = mixed.log().gather(2, ids[:, 1:, None]).sum()
        assert score.log_prob == pytest.approx(float(total), rel=1e-4)
        assert both.translate(["Hund Park"], coverage_penalty=0.1)[0].text

    def test_another_vocabulary_is_refused(self, translator: Translator) -> None:
        other = Tokenizer.train(TEXT[:4], TokenizerConfig(vocab_size=400))
        with pytest.raises(ModelError, match="one vocabulary"):
            ensemble([translator, random_translator(other)])


class TestTextsInParts:
    TEXTS = ("Ein Hund läuft. Die Katze schläft.", "Park", "Kinder spielen. Hund. Katze.")

    def test_prefix_begins_the_first_part_and_terms_belong_to_theirs(
        self, translator: Translator
    ) -> None:
        found = translator.translate(
            self.TEXTS,
            split="always",
            prefixes=["Zwei Kin", None, None],
            terminology=Terminology([("Katze", "im Park")]),
        )
        assert [result.num_parts for result in found] == [2, 1, 3]
        assert found[0].text.startswith("Zwei Kin")
        assert "im Park" in found[0].text and "im Park" in found[2].text

    def test_samples_do_not_depend_on_other_texts(self, translator: Translator) -> None:
        how = {"sample": True, "nbest": 2, "split": "always", "temperature": 1.5}
        together = translator.translate(self.TEXTS, **how)
        for i, text in enumerate(self.TEXTS):
            (alone,) = translator.translate([text], first=i, **how)
            assert alone.text == together[i].text
            assert [a.text for a in alone.alternatives] == [
                a.text for a in together[i].alternatives
            ]

    def test_required_phrases_of_a_text_in_parts_are_refused(self, translator: Translator) -> None:
        with pytest.raises(DataError, match="line 1: required phrases need a text in one piece"):
            translator.translate(self.TEXTS, required=[["Hund"], [], []], split="always")
