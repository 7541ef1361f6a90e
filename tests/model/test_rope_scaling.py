"""Stretched rotary positions: the papers' formulas, and Hugging Face token by token."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from gnomon.model import RopeConfig
from gnomon.model.rope import angles, frequencies
from gnomon.model.surgery import Scaling, stretch_rope
from model.golden import CLOSE
from model.test_golden_llama import CONFIG, build, changes_of, ours
from model_configs import changed

K, THETA, TRAINED = 64, 10_000.0, 512


def plain(i: int) -> float:
    """theta_i = b^(-2i/|D|) (Su et al., 2021, §3.2.2)."""
    return float(THETA ** (-2 * i / K))


def ours_of(scaling: str, factor: float, length: int = 1) -> list[float]:
    config = RopeConfig(scaling=scaling, factor=factor, original_length=TRAINED)  # type: ignore[arg-type]
    found: list[float] = frequencies(config, K, length)[0].tolist()
    return found


@pytest.mark.parametrize("factor", [1.0, 2.0, 8.0, 33.5])
def test_linear_interpolation_is_chen_et_al(factor: float) -> None:
    """f'(x, m) = f(x, m L / L') (Chen et al., 2023, §2.3)."""
    for i, found in enumerate(ours_of("linear", factor)):
        for m in (1, 77, 4000):
            assert m * found == pytest.approx((m / factor) * plain(i), rel=1e-12)


@pytest.mark.parametrize("factor", [1.0, 2.0, 8.0, 33.5])
def test_ntk_aware_is_peng_et_al(factor: float) -> None:
    """b' = b s^(|D| / (|D| - 2)) (Peng et al., 2023, §3.1)."""
    base = THETA * factor ** (K / (K - 2))
    for i, found in enumerate(ours_of("ntk", factor)):
        assert found == pytest.approx(base ** (-2 * i / K), rel=1e-12)


@pytest.mark.parametrize("length", [1, 512, 513, 700, 4096])
def test_dynamic_ntk_is_ntk_by_the_length_of_the_text(length: int) -> None:
    """s = max(1, l' / L), at each length (Peng et al., 2023, §3.3)."""
    scale = max(1.0, length / TRAINED)
    assert ours_of("dynamic_ntk", 1.0, length) == pytest.approx(ours_of("ntk", scale), rel=1e-12)


@pytest.mark.parametrize("factor", [2.0, 8.0, 32.0])
def test_yarn_is_the_papers_where_paper_and_code_agree(factor: float) -> None:
    """Pairs with more than beta turns over the trained length stay, those with less than alpha
    are interpolated (Peng et al., 2023, §3.2). Between the two the paper's ramp is linear
    in the turns and its authors' code, Hugging Face and ours linear in the pair's number.
    """
    config = RopeConfig(scaling="yarn", factor=factor, original_length=TRAINED)
    found, attention = frequencies(config, K, 1)
    turns = [TRAINED * plain(i) / (2 * math.pi) for i in range(K // 2)]
    kinds = {"kept": 0, "interpolated": 0, "between": 0}
    for i, frequency in enumerate(found.tolist()):
        if turns[i] > 32:
            kinds["kept"] += 1
            assert frequency == pytest.approx(plain(i), rel=1e-12)
        elif turns[i] < 1 and turns[i - 1] < 1:
            kinds["interpolated"] += 1
            assert frequency == pytest.approx(plain(i) / factor, rel=1e-12)
        else:
            kinds["between"] += 1
            assert plain(i) / factor <= frequency * (1 + 1e-12) <= plain(i) * (1 + 2e-12)
    assert min(kinds.values()) >= 3
    # sqrt(1 / t) = 0.1 ln s + 1 (§3.4), on queries and on keys
    assert attention == pytest.approx(0.1 * math.log(factor) + 1)
    rows = angles(config, K, torch.tensor([0]), 1)
    assert rows[0, 0].tolist() == pytest.approx([0.1 * math.log(factor) + 1] * (K // 2))


@pytest.mark.parametrize("factor", [1.0, 2.0, 8.0, 33.5])
@pytest.mark.parametrize("theirs", ["linear", "dynamic", "yarn"])
def test_frequencies_are_those_of_hugging_faces_utilities(theirs: str, factor: float) -> None:
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    rope = {
        "rope_type": theirs,
        "rope_theta": THETA,
        "factor": factor,
        "original_max_position_embeddings": TRAINED,
    }
    config = LlamaConfig(
        hidden_size=4 * K,
        num_attention_heads=4,
        max_position_embeddings=TRAINED,
        rope_parameters=rope,
    )
    mine: Scaling = {"linear": "linear", "dynamic": "dynamic_ntk", "yarn": "yarn"}[theirs]  # type: ignore[assignment]
    for length in (1, TRAINED, TRAINED + 1, 3000):
        expected, attention = ROPE_INIT_FUNCTIONS[theirs](config, "cpu", seq_len=length)
        stretched = RopeConfig(scaling=mine, factor=factor, original_length=TRAINED)
        found, factor_found = frequencies(stretched, K, length)
        torch.testing.assert_close(found.float(), expected, rtol=2e-6, atol=0)
        assert factor_found == pytest.approx(attention)


@pytest.mark.parametrize("factor", [2.0, 8.0])
def test_ntk_is_hugging_faces_dynamic_at_that_length(factor: float) -> None:
    """Hugging Face has no fixed NTK; its dynamic one with factor 1 is it at s times the length."""
    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

    config = LlamaConfig(
        hidden_size=4 * K,
        num_attention_heads=4,
        max_position_embeddings=TRAINED,
        rope_parameters={"rope_type": "dynamic", "rope_theta": THETA, "factor": 1.0},
    )
    length = int(factor * TRAINED)
    expected, _ = ROPE_INIT_FUNCTIONS["dynamic"](config, "cpu", seq_len=length)
    found = torch.tensor(ours_of("ntk", factor))
    torch.testing.assert_close(found, expected, rtol=2e-6, atol=0)


STRETCHED: dict[str, tuple[Scaling, float, dict[str, Any]]] = {
    "linear": ("linear", 5.0, {"rope_type": "linear", "factor": 5.0}),
    "ntk": ("ntk", 5.0, {"rope_type": "default", "rope_theta": 500.0 * 5.0**2}),  # heads of 4
    "yarn": (
        "yarn",
        5.0,
        {"rope_type": "yarn", "factor": 5.0, "original_max_position_embeddings": 8},
    ),
}


@pytest.mark.parametrize("name", STRETCHED)
@torch.no_grad()
def test_an_extended_llama_goes_on_like_hugging_faces_token_by_token(name: str) -> None:
    """Trained at 8, read at 40, each model with its own cache, one token after the other."""
    scaling, factor, rope = STRETCHED[name]
    theirs = build(rope)
    model = ours(theirs, changed(CONFIG, changes_of({})))
    before = model.config
    operated = stretch_rope(before, model.state_dict(), scaling, factor, trained_length=8)
    stretched = type(model)(operated.config).to(next(model.parameters()).dtype).eval()
    stretched.load_state_dict(operated.weights)
    torch.manual_seed(0)
    ids = torch.randint(1, 40, (2, 40))
    past, cache, differs = None, stretched.new_cache(), False
    for t in range(40):
        step = theirs(ids[:, t : t + 1], past_key_values=past, use_cache=True)
        past = step.past_key_values
        logits = stretched.project(stretched.decode(ids[:, t : t + 1], cache=cache))
        torch.testing.assert_close(logits, step.logits, **CLOSE)
        differs |= not torch.allclose(model(ids[:, : t + 1])[:, -1:], logits, rtol=1e-3, atol=1e-3)
    assert differs
