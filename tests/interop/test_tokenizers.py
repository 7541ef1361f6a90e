"""Tokenizers of others give the ids that transformers gives, on text that nobody would expect."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import pytest
import tokenizers
from tokenizers import models, normalizers, pre_tokenizers, trainers

from gnomon.errors import DataError, ModelError
from gnomon.interop.sentencepieces import marian
from gnomon.interop.vocabulary import Vocabulary
from gnomon.text import PretrainedTokenizer

LINES = [
    "The quick brown fox jumps over the lazy dog.",
    "Never odd or even; was it a car or a cat I saw?",
    "Straße, naïve café, 12 345 and 3.14!",
    "我喜欢猫和狗。", "它们在公园里跑。", "今日は良い天気です。",
    "don't won't can't it's I'm we've", "a b c d e f g h i j k l m n o p q r s t u v w x y z",
] * 5  # fmt: skip
HOSTILE = [
    "",
    " ",
    "   leading and   inner  blanks   ",
    "\tTAB\nnewline\r\n and \x0b\x0c",
    "control \x00\x01\x1b[31m\x7f\x85 characters",
    "emoji 😀👩‍👩‍👧‍👦 🏴󠁧󠁢󠁥󠁮󠁧󠁿 and flags 🇩🇪",
    "我喜欢猫和狗，dogs也喜欢。",
    "ＦＵＬＬＷＩＤＴＨ ﬁ ligature ① ㎏",
    "combining e\u0301 n\u0303 \u0336 o\u0308 and Å vs A\u030a",
    "zero\u200bwidth\u200djoin\u2060er \ufeff bom \u00ad soft",
    "right-to-left \u202eabc\u202c עברית العربية",
    "\u2028line sep\u2029par sep\u00a0nbsp\u3000ideographic",
    "[CLS] [SEP] [MASK] <s> </s> <pad> <unk> <mask> <|endoftext|> <extra_id_0>",
    "▁underline ▁▁ and ## hashes ##ing",
    "private \ue000use \uffff \U0010ffff",
    "x" * 300,
    "word " * 400,
    "don't CAN'T it'S",
    "1234567890 3.14 1,000",
]


def word_piece(folder: Path) -> None:
    shell = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    shell.normalizer = normalizers.BertNormalizer(lowercase=True)
    shell.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=220, special_tokens=names, show_progress=False)
    shell.train_from_iterator(LINES, trainer)
    vocab = sorted(shell.get_vocab().items(), key=lambda item: item[1])
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word, _ in vocab))
    (folder / "config.json").write_text(json.dumps({"model_type": "bert"}))
    settings = {"tokenizer_class": "BertTokenizer", "do_lower_case": True}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def byte_pairs(kind: str, names: list[str], klass: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        shell = tokenizers.Tokenizer(models.BPE())
        shell.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        trainer = trainers.BpeTrainer(
            vocab_size=400,
            special_tokens=names,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        shell.train_from_iterator(LINES, trainer)
        model = json.loads(shell.to_str())["model"]
        (folder / "vocab.json").write_text(json.dumps(model["vocab"], ensure_ascii=False))
        merges = "\n".join(" ".join(merge) for merge in model["merges"])
        (folder / "merges.txt").write_text(f"#version: 0.2\n{merges}\n")
        (folder / "config.json").write_text(json.dumps({"model_type": kind}))
        (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": klass}))

    return write


def pieces(folder: Path, name: str, kind: str, size: int = 220, **more: Any) -> None:
    import sentencepiece

    text = folder / "text.txt"
    text.write_text("\n".join(LINES))
    sentencepiece.SentencePieceTrainer.train(
        input=str(text),
        model_prefix=str(folder / "trained"),
        vocab_size=size,
        model_type=kind,
        character_coverage=0.98,
        minloglevel=2,
        hard_vocab_limit=kind == "bpe",
        **more,
    )
    (folder / "trained.model").rename(folder / name)


def t5(folder: Path) -> None:
    ids = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
    pieces(folder, "spiece.model", "unigram", **ids)
    (folder / "config.json").write_text(json.dumps({"model_type": "t5"}))
    settings = {"tokenizer_class": "T5Tokenizer", "extra_ids": 10}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


def llama(folder: Path) -> None:
    pieces(folder, "tokenizer.model", "bpe", 480, byte_fallback=True)
    (folder / "config.json").write_text(json.dumps({"model_type": "llama"}))
    settings = {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "legacy": False}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))


KINDS: dict[str, Callable[[Path], None]] = {
    "bert": word_piece,
    "gpt2": byte_pairs("gpt2", ["<|endoftext|>"], "GPT2Tokenizer"),
    "roberta": byte_pairs(
        "roberta", ["<s>", "<pad>", "</s>", "<unk>", "<mask>"], "RobertaTokenizer"
    ),
    "t5": t5,
    "llama": llama,
}


def theirs(folder: Path) -> Any:
    import transformers

    return transformers.AutoTokenizer.from_pretrained(folder)


def config(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "config.json").read_text())
    return found


@pytest.fixture(scope="module", params=sorted(KINDS))
def kind(request: Any, tmp_path_factory: Any) -> tuple[str, Path]:
    folder: Path = tmp_path_factory.mktemp(request.param)
    KINDS[request.param](folder)
    return request.param, folder


@pytest.mark.parametrize("whole", [False, True], ids=["vocabulary", "tokenizer.json"])
def test_ids_and_texts_are_those_of_transformers(
    kind: tuple[str, Path], whole: bool, tmp_path: Path
) -> None:
    name, folder = kind
    reference = theirs(folder)
    if whole:
        reference.save_pretrained(tmp_path)
        (tmp_path / "config.json").write_text(json.dumps(config(folder)))
        folder = tmp_path
    ours = Vocabulary(folder, config(folder)).open()
    for text in HOSTILE:
        expected = reference(text)
        found = ours.frame([text])[0]
        assert found.ids == expected["input_ids"], (name, text)
        pair = reference(text, "second text")
        both = ours.frame([text], ["second text"])[0]
        assert both.ids == pair["input_ids"], (name, text)
        if "token_type_ids" in pair:
            assert both.segments == pair["token_type_ids"]
        plain = reference(text, add_special_tokens=False)["input_ids"]
        assert ours.encode([text])[0] == plain
        shown = reference.decode(
            expected["input_ids"], skip_special_tokens=True, clean_up_tokenization_spaces=False
        )
        assert ours.decode([found.ids])[0] == shown, (name, text)
    for role in ("pad", "unk", "bos", "eos", "cls", "sep", "mask"):
        assert getattr(ours.roles, role) == getattr(reference, f"{role}_token_id"), role


def test_rows_are_shortened_as_transformers_does(kind: tuple[str, Path]) -> None:
    _, folder = kind
    reference, ours = theirs(folder), Vocabulary(folder, config(folder)).open()
    text, second = "the quick brown fox jumps over " * 4, "the lazy dog " * 2
    for length in (6, 9, 20):
        one = reference(text, truncation=True, max_length=length)["input_ids"]
        found = ours.frame([text], max_length=length)[0]
        assert found.ids == one
        assert found.cut == len(ours.frame([text])[0].ids) - len(one)
        two = reference(text, second, truncation=True, max_length=length)["input_ids"]
        assert ours.frame([text], [second], max_length=length)[0].ids == two
    assert ours.frame([text])[0].cut == 0  # the limit was for those calls
    with pytest.raises(DataError, match="room"):
        ours.frame([text], [second], max_length=1)


def test_saved_and_loaded_it_is_the_same(kind: tuple[str, Path], tmp_path: Path) -> None:
    _, folder = kind
    ours = Vocabulary(folder, config(folder)).open()
    ours.save(tmp_path)
    again = PretrainedTokenizer.load(tmp_path / "tokenizer.json")
    assert again.fingerprint == ours.fingerprint
    assert again.encode(HOSTILE) == ours.encode(HOSTILE)
    for text, spans, ids in zip(HOSTILE, ours.spans(HOSTILE), ours.encode(HOSTILE), strict=True):
        assert len(spans) == len(ids)
        assert all(0 <= start <= end <= len(text) for start, end in spans)


def test_a_lone_surrogate_is_refused(kind: tuple[str, Path]) -> None:
    _, folder = kind
    with pytest.raises(DataError, match="surrogate"):
        Vocabulary(folder, config(folder)).open().encode(["\ud800"])


@pytest.mark.parametrize("two", [False, True], ids=["one", "two"])
@pytest.mark.filterwarnings("ignore:Recommended")
def test_marian(tmp_path: Path, two: bool) -> None:
    import sentencepiece

    pieces(tmp_path, "source.spm", "unigram", 150)
    pieces(tmp_path, "target.spm", "unigram", 120)
    models_ = {}
    for side in ("source", "target"):
        model = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / f"{side}.spm"))
        models_[side] = [model.id_to_piece(i) for i in range(3, model.get_piece_size())]
    first = models_["source"] if two else models_["source"] + models_["target"]
    # Numbered in an order of its own, one piece of the source left out.
    words = sorted(set(first) - {models_["source"][5]})
    vocab = {word: i for i, word in enumerate(["</s>", "<unk>", ">>fra<<", *words, "<pad>"])}
    (tmp_path / "vocab.json").write_text(json.dumps(vocab))
    settings: dict[str, Any] = {"tokenizer_class": "MarianTokenizer", "separate_vocabs": two}
    if two:
        second = ["</s>", "<unk>", *models_["target"], "<pad>"]
        (tmp_path / "target_vocab.json").write_text(
            json.dumps({w: i for i, w in enumerate(second)})
        )
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "marian"}))
    from transformers import MarianTokenizer

    reference = MarianTokenizer.from_pretrained(tmp_path)
    source, target = marian(tmp_path, {})
    for text in [*LINES[:8], *HOSTILE, ">>fra<< the dog", ">>fra<<the dog"]:
        if any(name in text for name in ("</s>", "<pad>", "<unk>")) or "\x00" in text:
            continue  # transformers lets a text spell special tokens, and ends it at NUL
        expected = reference(text)["input_ids"]
        assert source.frame([text])[0].ids[-1] == expected[-1]
        found = [*source.encode([text])[0], vocab["</s>"]]
        assert found == expected, text
        labels = reference(text_target=text)["input_ids"]
        ids = [*target.encode([text])[0], labels[-1]]
        if not text.startswith(">>"):
            assert ids == labels, text
            shown = reference.decode(labels, skip_special_tokens=True)
            assert target.decode([labels])[0].strip() == shown, text


def test_a_folder_without_a_tokenizer(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"no tokenizer\.json"):
        Vocabulary(tmp_path, {"model_type": "qwen2"}).open()
