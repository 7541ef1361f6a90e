"""Classes of transformers that give labels: what stands over the base model there, in our terms.

What they compute is fixed in their code: which token's vector, a dense layer or none, its
activation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gnomon.errors import ModelError
from gnomon.interop.keys import Keys
from gnomon.interop.parts import Part
from gnomon.model import ClassifierConfig, TransformerConfig
from gnomon.tasks.classifier_folder import ClassifierSettings
from gnomon.text.labelled import LabelKind

_PROBLEMS: Mapping[LabelKind, str] = {
    "single": "single_label_classification",
    "multi": "multi_label_classification",
}
_SUFFIXES = ("ForSequenceClassification", "ForTokenClassification")
OURS = "gnomon"
"""Key of config.json: what gnomon knows of a classifier and transformers has no word for."""


@dataclass(frozen=True, kw_only=True)
class LabelHead:
    """One class.

    Attributes:
        name: of the class there.
        config: what it computes; its dropout stands in config.json.
        per_token: whether each token has a label.
        out, dense: names of its layers there.
        dropout_key: where the head's own dropout stands.
        dropout: where it stands nowhere; None: the base model's.
    """

    name: str
    config: ClassifierConfig
    per_token: bool = False
    out: str
    dense: str | None = None
    dropout_key: str | None = None
    dropout: float | None = None


def of_tokens(name: str, out: str = "classifier", **more: Any) -> LabelHead:
    """A class that labels each token by one layer."""
    return LabelHead(name=name, config=ClassifierConfig(), per_token=True, out=out, **more)


def of_decoder(base: str, *, of_tokens_: str) -> tuple[LabelHead, LabelHead]:
    """What all decoders have: a text's label from its last token, without bias; and of tokens."""
    return (
        LabelHead(
            name=f"{base}ForSequenceClassification",
            config=ClassifierConfig(pooling="last", bias=False),
            out="score",
            dropout=0.0,
        ),
        of_tokens(
            f"{base}ForTokenClassification",
            of_tokens_,
            dropout_key="classifier_dropout",
            dropout=0.1,
        ),
    )


@dataclass(frozen=True)
class Labelling:
    """A head with its labels.

    Attributes:
        head: the class.
        config: what it computes, its dropout included.
        labels: their names, in the order of its outputs.
        kind: whether a text has one, several, or each word one.
    """

    head: LabelHead
    config: ClassifierConfig
    labels: tuple[str, ...]
    kind: LabelKind

    def parts(self, width: int) -> list[Part]:
        """Its tensors."""
        number, bias = len(self.labels), self.config.bias
        layers = [("out", self.head.out, number, bias)]
        if self.head.dense is not None:
            layers.append(("dense", self.head.dense, width, True))
        found = []
        for ours, theirs, rows, with_bias in layers:
            found.append(Part(f"{ours}.weight", (f"{theirs}.weight",), (rows,), (rows, width)))
            if with_bias:
                found.append(Part(f"{ours}.bias", (f"{theirs}.bias",), (rows,), (rows,)))
        return found


def head_named(heads: Sequence[LabelHead], keys: Keys) -> LabelHead | None:
    """The class that config.json names; None: it gives no labels.

    Raises:
        ModelError: it gives labels, and is none of `heads`.
    """
    named = keys.values.get("architectures")
    for name in named if isinstance(named, list) else []:
        for head in heads:
            if head.name == name:
                return head
        if str(name).endswith(_SUFFIXES):
            known = ", ".join(head.name for head in heads) or "none of this model_type"
            raise keys.refused(
                "architectures",
                named,
                f"classifiers that can be taken in: {known}; its base model alone: --no-head",
            )
    return None


def read_labelling(head: LabelHead, keys: Keys, base: TransformerConfig) -> Labelling:
    """The labels that a config.json names.

    Raises:
        ModelError: it names none, or its output is a number instead of labels.
    """
    labels = _names(keys)
    kind: LabelKind = "words"
    if not head.per_token:
        problem = keys.values.get("problem_type")
        kinds = {name: kind for kind, name in _PROBLEMS.items()}
        if problem is None and len(labels) > 1:
            problem = _PROBLEMS["single"]
        if problem not in kinds:
            raise keys.refused(
                "problem_type",
                problem,
                "a classifier gives labels, not a number"
                + ("; one output alone is a number there" if problem is None else ""),
            )
        kind = kinds[problem]
    dropout = None if head.dropout_key is None else keys.values.get(head.dropout_key)
    if dropout is None:
        dropout = base.dropout if head.dropout is None else head.dropout
    return Labelling(head, replace(head.config, dropout=float(dropout)), labels, kind)


def _names(keys: Keys) -> tuple[str, ...]:
    """What the outputs are called; as transformers calls them where config.json is silent."""
    given = keys.values.get("id2label")
    if given is None:
        number = keys.values.get("num_labels") or 2
        given = {str(index): f"LABEL_{index}" for index in range(int(number))}
    if not isinstance(given, Mapping) or not given:
        raise keys.refused("id2label", given, 'it names each output: {"0": …, "1": …}')
    by_id = {str(index): str(name) for index, name in given.items()}
    order = [str(index) for index in range(len(by_id))]
    if by_id.keys() != set(order) or len(set(by_id.values())) < len(by_id):
        raise keys.refused("id2label", given, "every output has a name of its own, from 0 on")
    return tuple(by_id[index] for index in order)


def write_labelling(labelling: Labelling, settings: ClassifierSettings | None) -> dict[str, Any]:
    """The keys of a config.json.

    Args:
        settings: of the whole classifier, for what only gnomon knows; None: nothing of it.
    """
    found: dict[str, Any] = {
        "architectures": [labelling.head.name],
        "id2label": {str(index): label for index, label in enumerate(labelling.labels)},
        "label2id": {label: index for index, label in enumerate(labelling.labels)},
    }
    if labelling.kind in _PROBLEMS:
        found["problem_type"] = _PROBLEMS[labelling.kind]
    if labelling.head.dropout_key is not None:
        found[labelling.head.dropout_key] = labelling.config.dropout
    if settings is not None:
        found[OURS] = {
            "takes_pairs": settings.takes_pairs,
            "threshold": settings.threshold,
            "label_counts": settings.label_counts,
        }
    return found


def labelling_of(head: LabelHead, settings: ClassifierSettings) -> Labelling | None:
    """Our classifier as one of that class; None: it labels words where ours labels texts, or so."""
    if head.per_token != (settings.labels_are == "words"):
        return None
    return Labelling(head, settings.classifier, settings.labels, settings.labels_are)


def in_the_way(labelling: Labelling) -> list[str]:
    """What the class has not of what ours computes; dropout is of training alone."""
    return [
        f"classifier.{name} = {ours!r} (there: {theirs!r})"
        for name, ours, theirs in _apart(labelling)
    ]


def to_train_with(labelling: Labelling) -> str:
    """The settings of a training after which nothing of that is in the way."""
    return " ".join(
        f"--set classifier.{name}={str(theirs).lower()}" for name, _, theirs in _apart(labelling)
    )


def _apart(labelling: Labelling) -> list[tuple[str, object, object]]:
    """Keys of [classifier] in which ours and the class differ, with both values."""
    ours, theirs = labelling.config, labelling.head.config
    names = ["bias"]
    if not labelling.head.per_token:
        names += ["pooling", "dense", *(["activation"] if ours.dense and theirs.dense else [])]
    pairs = [(name, getattr(ours, name), getattr(theirs, name)) for name in sorted(names)]
    return [each for each in pairs if each[1] != each[2]]


def check_last_token(labelling: Labelling, pad_id: int | None, suffix: Sequence[int]) -> None:
    """Where the last token is looked at, it is the same one there.

    Args:
        pad_id: of config.json.
        suffix: ids behind every text.

    Raises:
        ModelError: transformers takes the end of a text for padding, and looks before it.
    """
    if labelling.config.pooling == "last" and not labelling.head.per_token and pad_id in suffix:
        raise ModelError(
            "a decoder that classifies looks at a text's last token",
            seen=f"pad_token_id = {pad_id} ends every text, so that transformers looks before it",
            mend="name another pad_token_id in config.json",
        )


def settings_for(labelling: Labelling, keys: Keys, longest: int | None) -> ClassifierSettings:
    """What the config.json of our model folder says.

    Raises:
        ModelError: what gnomon itself once wrote is damaged.
    """
    noted = keys.values.get(OURS) or {}
    try:
        counts = noted.get("label_counts")
        return ClassifierSettings(
            classifier=labelling.config,
            labels=labelling.labels,
            labels_are=labelling.kind,
            max_length=longest,
            takes_pairs=bool(noted.get("takes_pairs", False)),
            threshold=float(noted.get("threshold", ClassifierSettings.threshold)),
            label_counts=None if counts is None else tuple(map(int, counts)),
        )
    except (AttributeError, TypeError, ValueError) as error:
        raise ModelError(f"{keys.place}: {OURS} is damaged", seen=error) from error
