"""Logistic regression over characters decides as scikit-learn's does."""

from __future__ import annotations

import random

import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from gnomon.evaluation.counted import CountedCharacters


@pytest.mark.parametrize("num_labels", [2, 3])
def test_it_decides_as_scikit_learn_does(num_labels: int) -> None:
    rng = random.Random(0)
    words = [["dog", "cow", "hen"], ["pen", "cup", "key"], ["red", "dim", "old"]][:num_labels]
    texts, labels = [], []
    for _ in range(400):
        label = rng.randrange(num_labels)
        own = [label if rng.random() < 0.55 else rng.randrange(num_labels) for _ in range(5)]
        texts.append(" ".join(rng.choice(words[kind]) for kind in own))
        labels.append("abc"[label])
    train, test = slice(0, 300), slice(300, 400)
    ours = CountedCharacters(texts[train], labels[train]).classify(texts[test])
    vectors = TfidfVectorizer(analyzer="char", ngram_range=(1, 3), sublinear_tf=True)
    features = vectors.fit_transform(texts[train])
    model = LogisticRegression(C=10, max_iter=2000).fit(features, labels[train])
    theirs = model.predict(vectors.transform(texts[test]))
    same = sum(one == other for one, other in zip(ours, theirs, strict=True))
    assert same >= (97 if num_labels == 2 else 90)  # of three, theirs is one softmax over all
    assert sum(one == gold for one, gold in zip(ours, labels[test], strict=True)) > 60


def test_texts_without_anything_are_labelled_too() -> None:
    counted = CountedCharacters(["a", "a", "b"], ["x", "x", "y"])
    assert counted.classify(["", "b", "a"]) == ["x", "y", "x"]
