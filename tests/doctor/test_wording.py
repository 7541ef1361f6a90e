"""Sentences of findings read well whatever numbers they hold."""

import pytest

from gnomon.doctor.wording import well_worded


@pytest.mark.parametrize(
    ("said", "read"),
    [
        ("1 norms give NaN", "1 norm gives NaN"),
        ("1 attention calls hide keys with -1e+09", "1 attention call hides keys with -1e9"),
        ("1 layers are fused; 2 layers are not", "1 layer is fused; 2 layers are not"),
        ("the median gain of 1 norms is 1", "the median gain of 1 norm is 1"),
        ("11 norms, 0.1 tokens, 21 heads", "11 norms, 0.1 tokens, 21 heads"),
        ("made 1 optimizer steps", "made 1 optimizer step"),
        ("1 of 3 norms", "1 of 3 norms"),
        ("layer 1 heads", "layer 1 heads"),
        ("0.00e+00 and 3e-07 and 2.5e+12", "0 and 3e-7 and 2.5e12"),
        ("moved by 1e-10", "moved by 1e-10"),
        ("1e4 tokens", "1e4 tokens"),
    ],
)
def test_numbers_are_told_as_a_person_would(said: str, read: str) -> None:
    assert well_worded(said) == read
