"""The tokenizer in a Hugging Face folder: its `tokenizer.json`, or one built from other files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, decoders, models, normalizers, pre_tokenizers, processors

from gnomon.errors import ModelError
from gnomon.model.io import read_object
from gnomon.text.pretrained import PretrainedTokenizer, TokenizerRoles

ROLES = ("pad", "unk", "bos", "eos", "cls", "sep", "mask")
# Names of special tokens where neither tokenizer_config.json nor special_tokens_map.json says.
_DEFAULTS: Mapping[str, Mapping[str, str]] = {
    "bert": {
        "pad": "[PAD]",
        "unk": "[UNK]",
        "cls": "[CLS]",
        "sep": "[SEP]",
        "mask": "[MASK]",
    },
    "gpt2": dict.fromkeys(("unk", "bos", "eos"), "<|endoftext|>"),
    "roberta": {
        "pad": "<pad>",
        "unk": "<unk>",
        "bos": "<s>",
        "eos": "</s>",
        "cls": "<s>",
        "sep": "</s>",
        "mask": "<mask>",
    },
    "t5": {"pad": "<pad>", "unk": "<unk>", "eos": "</s>"},
    "llama": {"unk": "<unk>", "bos": "<s>", "eos": "</s>"},
}
_LIKE = {
    "distilbert": "bert",
    "bart": "roberta",
    "electra": "bert",
    "xlm-roberta": "roberta",
    "camembert": "roberta",
    "mistral": "llama",
    "marian": "t5",
    "mbart": "roberta",
    "mt5": "t5",
    "phi3": "llama",
}


class Vocabulary:
    """What a folder says of its tokenizer.

    Args:
        folder: a Hugging Face folder.
        config: the content of its config.json.
    """

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        self.folder = folder
        self.config = config
        self.kind = str(config.get("model_type"))
        self.settings = _object(folder / "tokenizer_config.json")
        self.strips: set[str] = set()  # roles whose token takes the blanks before it
        self.names = self._names()

    def _names(self) -> dict[str, str]:
        """Special tokens by role."""
        found = dict(_DEFAULTS.get(_LIKE.get(self.kind, self.kind), {}))
        for source in (_object(self.folder / "special_tokens_map.json"), self.settings):
            for role in ROLES:
                value = source.get(f"{role}_token")
                if isinstance(value, dict):
                    if value.get("lstrip"):
                        self.strips.add(role)
                    value = value.get("content")
                if isinstance(value, str):
                    found[role] = value
        return found

    def open(self) -> PretrainedTokenizer:
        """The tokenizer.

        Raises:
            ModelError: there is none, or one of a kind that cannot be built here.
        """
        path = self.folder / "tokenizer.json"
        if path.is_file():
            try:
                serialized = path.read_bytes().decode("utf-8")
                shell = tokenizers.Tokenizer.from_str(serialized)
            except Exception as error:  # the Rust side raises bare Exception
                raise ModelError(f"{path} cannot be read", seen=error) from error
        else:
            shell = self._build()
            serialized = shell.to_str(pretty=True)
        return PretrainedTokenizer(serialized, self.roles(shell))

    def roles(self, shell: Any) -> TokenizerRoles:
        """Ids by role: by the names of the special tokens, else by config.json."""
        size = max(shell.get_vocab(with_added_tokens=True).values(), default=-1) + 1
        ids: dict[str, Any] = {}
        for role in ROLES:
            name = self.names.get(role)
            index = None if name is None else shell.token_to_id(name)
            if index is None:
                given = self.config.get(f"{role}_token_id")
                given = given[0] if isinstance(given, list) and given else given
                index = given if isinstance(given, int) and 0 <= given < size else None
            ids[role] = index
        return TokenizerRoles(**ids, chat_template=self._chat_template())

    def _chat_template(self) -> str | None:
        beside = self.folder / "chat_template.jinja"
        if beside.is_file():
            return _text(beside)
        template = self.settings.get("chat_template")
        if isinstance(template, list):  # several, by name
            named = {
                each.get("name"): each.get("template")
                for each in template
                if isinstance(each, dict)
            }
            template = named.get("default")
        return template if isinstance(template, str) else None

    def _build(self) -> Any:
        has = {path.name for path in self.folder.iterdir()}
        if "vocab.txt" in has and self.kind in ("bert", "distilbert", "electra"):
            return self._word_piece()
        if {"vocab.json", "merges.txt"} <= has and self.kind in ("gpt2", "roberta", "bart"):
            return self._byte_pairs()
        for name in ("spiece.model", "tokenizer.model", "sentencepiece.bpe.model"):
            if name in has and self.kind in ("t5", "mt5", "llama", "mistral"):
                from gnomon.interop.sentencepieces import llama, t5

                build = t5 if self.kind in ("t5", "mt5") else llama
                return build(self.folder / name, self.names, self.settings)
        raise ModelError(
            "a model's folder holds its tokenizer",
            seen=f"{self.folder} has no tokenizer.json, and no vocabulary of a kind that can be "
            f"built for {self.kind}",
            mend="save it there with transformers: "
            "AutoTokenizer.from_pretrained(…).save_pretrained(FOLDER)",
        )

    def _word_piece(self) -> Any:
        """BERT's: words in pieces, from vocab.txt."""
        text = _text(self.folder / "vocab.txt")
        vocab = {line: index for index, line in enumerate(text.rstrip("\n").split("\n"))}
        names = self.names
        shell = tokenizers.Tokenizer(models.WordPiece(vocab, unk_token=names["unk"]))
        shell.normalizer = normalizers.BertNormalizer(
            clean_text=True,
            handle_chinese_chars=self._flag("tokenize_chinese_chars", True),
            strip_accents=self._flag("strip_accents", None),
            lowercase=self._flag("do_lower_case", True),
        )
        shell.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        shell.decoder = decoders.WordPiece(prefix="##")
        self._add_specials(shell, ("unk", "sep", "pad", "cls", "mask"))
        cls, sep = names["cls"], names["sep"]
        shell.post_processor = processors.TemplateProcessing(
            single=f"{cls}:0 $A:0 {sep}:0",
            pair=f"{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1",
            special_tokens=[(name, shell.token_to_id(name)) for name in (cls, sep)],
        )
        return shell

    def _byte_pairs(self) -> Any:
        """GPT-2's and RoBERTa's: merges of bytes, from vocab.json and merges.txt."""
        vocab, merges = str(self.folder / "vocab.json"), str(self.folder / "merges.txt")
        try:
            model = models.BPE.from_file(
                vocab, merges, continuing_subword_prefix="", end_of_word_suffix=""
            )
        except Exception as error:  # the Rust side raises bare Exception
            raise ModelError(f"{vocab} and {merges} cannot be read", seen=error) from error
        shell = tokenizers.Tokenizer(model)
        blank = self._flag("add_prefix_space", False)
        shell.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=blank)
        shell.decoder = decoders.ByteLevel()
        if self.kind == "gpt2":
            self._add_specials(shell, ("unk", "bos", "eos", "pad"))
            shell.post_processor = processors.ByteLevel(trim_offsets=False)
            return shell
        self._add_specials(shell, ("bos", "eos", "unk", "sep", "pad", "cls", "mask"))
        sep, cls = ((n, shell.token_to_id(n) or 0) for n in (self.names["sep"], self.names["cls"]))
        shell.post_processor = processors.RobertaProcessing(sep, cls, True, blank)
        return shell

    def _flag(self, key: str, default: bool | None) -> Any:
        """A setting that is true or false, or null where that is the default."""
        value = self.settings.get(key, default)
        if not isinstance(value, bool) and value is not default:
            raise ModelError(
                f"{self.folder / 'tokenizer_config.json'}: {key} must be true or false",
                seen=repr(value),
            )
        return value

    def _add_specials(self, shell: Any, roles: tuple[str, ...]) -> None:
        """Make special tokens whole, whatever stands around them."""
        named = [(role, self.names[role]) for role in roles if role in self.names]
        shell.add_special_tokens(
            [
                AddedToken(
                    name,
                    special=True,
                    normalized=False,
                    lstrip=role in self.strips,
                )
                for role, name in named
            ]
        )


def _object(path: Path) -> dict[str, Any]:
    return read_object(path) if path.is_file() else {}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ModelError(f"{path} cannot be read", seen=error) from error
