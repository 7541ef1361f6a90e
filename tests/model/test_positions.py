"""Positions: sinusoids, learned tables, rotations, biases, each against its formula."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from gnomon.errors import ModelError
from gnomon.model import RelativeConfig, RopeConfig, Transformer
from gnomon.model.positions import SinusoidalPosition, sinusoidal_table, sinusoids
from gnomon.model.rope import Rotation, angle_table, angles, cached_angles, frequencies
from gnomon.model.score_bias import AlibiBias, RelativeBias, alibi_slopes
from model_configs import BASE, CONFIGS, changed

CPU = torch.device("cpu")


@pytest.mark.parametrize("position", [0, 1, 511, 512, 2047, 100_000])
def test_sinusoids_follow_the_formula_at_any_position(position: int) -> None:
    D = 16
    row = SinusoidalPosition(D, "interleaved")(torch.tensor([position]), position)[0]
    halves = SinusoidalPosition(D, "halves")(torch.tensor([position]), position)[0]
    for i in range(D // 2):
        phase = position / 10000 ** (2 * i / D)
        assert row[2 * i].item() == pytest.approx(math.sin(phase), abs=1e-6)
        assert row[2 * i + 1].item() == pytest.approx(math.cos(phase), abs=1e-6)
        assert halves[i] == row[2 * i]
        assert halves[D // 2 + i] == row[2 * i + 1]
    assert row.abs().max() <= 1


def test_kept_sinusoids_are_the_computed_ones() -> None:
    for last in (5, 127, 128, 16_383, 16_384):
        positions = torch.tensor([[0, 3, last], [7, 8, 9]])
        kept = SinusoidalPosition(16, "interleaved")(positions, last)
        assert torch.equal(kept, sinusoids(positions, 16, "interleaved"))


@pytest.mark.parametrize("shift", [1, 7, 300])
def test_a_shift_of_the_sinusoids_is_one_linear_map(shift: int) -> None:
    """PE(pos + k) = M_k PE(pos), with M_k a rotation per frequency that knows only k."""
    D = 16
    table = sinusoidal_table(1024, D, "interleaved", CPU)
    rates = 10000.0 ** (-torch.arange(0, D, 2, dtype=torch.float64) / D)
    turns = torch.zeros(D, D, dtype=torch.float64)
    for i, rate in enumerate(rates):
        c, s = math.cos(shift * rate), math.sin(shift * rate)
        turns[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = torch.tensor([[c, s], [-s, c]])
    expected = table[:700].double() @ turns.T
    torch.testing.assert_close(table[shift : shift + 700].double(), expected, rtol=0, atol=1e-6)


def test_tables_stay_fp32_and_survive_bfloat16_and_meta() -> None:
    config = changed(BASE, {"family": "encoder"})
    model = Transformer(config).eval()
    ids = torch.randint(1, 29, (1, 6))
    expected = model(ids)
    model.to(torch.bfloat16)(ids)
    model.to(torch.float32)
    assert sinusoidal_table(128, 16, "interleaved", CPU).dtype == torch.float32
    with torch.device("meta"):
        empty = Transformer(config)
    empty(torch.empty((1, 6), dtype=torch.int64, device="meta"))
    empty.to_empty(device="cpu")
    empty.load_state_dict(Transformer(config).state_dict())
    assert torch.isfinite(empty.eval()(ids)).all()
    # bfloat16 rounded the weights, not the positions
    torch.testing.assert_close(model(ids), expected, rtol=0.1, atol=0.1)


@pytest.mark.parametrize("kind", ["sinusoidal", "rope"])
def test_a_table_made_while_serving_can_be_trained_with(kind: str) -> None:
    sinusoidal_table.cache_clear()
    angle_table.cache_clear()
    config = changed(BASE, {"family": "decoder", "position.kind": kind, "d_model": 32})
    model = Transformer(config)
    ids = torch.randint(1, 29, (1, 6))
    with torch.inference_mode():
        model(ids)
    model(ids).sum().backward()


def test_learned_positions_refuse_what_lies_past_their_end() -> None:
    config = changed(CONFIGS["decoder_learned"], {"position.max_length": 6})
    model = Transformer(config).eval()
    ids = torch.randint(1, 29, (1, 6))
    model(ids)
    with pytest.raises(ModelError) as caught:
        model(torch.randint(1, 29, (1, 7)))
    for part in ("6 tokens", "7 tokens", "model.position.max_length"):
        assert part in str(caught.value)
    cache = model.new_cache()
    model.decode(ids, cache=cache)
    with pytest.raises(ModelError):
        model.decode(ids[:, :1], cache=cache)


@pytest.mark.parametrize("scaling", ["none", "linear", "ntk", "yarn"])
def test_rotated_scores_depend_on_the_distance_only(scaling: str) -> None:
    config = RopeConfig(scaling=scaling, factor=4.0, original_length=64)  # type: ignore[arg-type]
    torch.manual_seed(0)
    query, key = torch.randn(2, 1, 1, 1, 16, dtype=torch.float64).unbind()

    def score(m: int, n: int) -> float:
        def rotation(position: int) -> Rotation:
            both = angles(config, 16, torch.tensor([position]), 1)
            return Rotation(both[0], both[1])

        return (rotation(m).turn(query) * rotation(n).turn(key)).sum().item()

    for distance in (0, 1, 30):
        scores = [score(start + distance, start) for start in (0, 5, 900)]
        assert scores == pytest.approx([scores[0]] * 3, rel=1e-3, abs=1e-3)
    assert abs(score(9, 0) - score(0, 9)) > 1e-3  # direction matters


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ({}, {"rope_type": "default"}),
        ({"scaling": "linear", "factor": 4.0}, {"rope_type": "linear", "factor": 4.0}),
        ({"scaling": "dynamic_ntk", "factor": 4.0}, {"rope_type": "dynamic", "factor": 4.0}),
        ({"scaling": "yarn", "factor": 4.0}, {"rope_type": "yarn", "factor": 4.0}),
        ({"scaling": "yarn", "factor": 16.0}, {"rope_type": "yarn", "factor": 16.0}),
        (
            {"scaling": "yarn", "factor": 8.0, "beta_fast": 16.0, "beta_slow": 2.0},
            {"rope_type": "yarn", "factor": 8.0, "beta_fast": 16.0, "beta_slow": 2.0},
        ),
        (
            {"scaling": "llama3", "factor": 8.0, "beta_fast": 4.0, "beta_slow": 1.0},
            {
                "rope_type": "llama3",
                "factor": 8.0,
                "high_freq_factor": 4.0,
                "low_freq_factor": 1.0,
            },
        ),
    ],
    ids=str,
)
def test_frequencies_are_hugging_faces(ours: dict[str, object], theirs: dict[str, object]) -> None:
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    K, trained, length = 64, 512, 1500
    theirs = {"rope_theta": 10000.0, "original_max_position_embeddings": trained, **theirs}
    config = LlamaConfig(
        hidden_size=4 * K,
        num_attention_heads=4,
        head_dim=K,
        max_position_embeddings=trained,
        rope_parameters=theirs,
    )
    cos, sin = LlamaRotaryEmbedding(config)(torch.zeros(1, length, 4), torch.arange(length)[None])
    rope = RopeConfig(original_length=trained, **ours)  # type: ignore[arg-type]
    mine = angles(rope, K, torch.arange(length), length)
    # Theirs are computed in fp32, whose rounding grows with the position.
    torch.testing.assert_close(mine[0], cos[0, :, : K // 2], rtol=0, atol=4e-4)
    torch.testing.assert_close(mine[1], sin[0, :, : K // 2], rtol=0, atol=4e-4)
    torch.testing.assert_close(mine[0, :20], cos[0, :20, : K // 2], rtol=0, atol=4e-6)


def test_ntk_stretches_the_slowest_pair_by_the_factor_and_keeps_the_fastest() -> None:
    plain, _ = frequencies(RopeConfig(), 64, 1)
    stretched, _ = frequencies(RopeConfig(scaling="ntk", factor=4.0), 64, 1)
    assert stretched[0].item() == pytest.approx(plain[0].item())
    assert (plain[-1] / stretched[-1]).item() == pytest.approx(4.0)


def test_dynamic_ntk_is_plain_up_to_the_trained_length() -> None:
    config = RopeConfig(scaling="dynamic_ntk", factor=4.0, original_length=32)
    positions = torch.arange(32)
    plain = angles(replace(config, scaling="none"), 16, positions, 32)
    assert torch.equal(angles(config, 16, positions, 32), plain)
    assert not torch.equal(angles(config, 16, positions, 33), plain)


def test_dynamic_ntk_with_a_cache_wants_the_final_length() -> None:
    model = Transformer(CONFIGS["decoder_rope_dynamic_ntk"]).eval()  # trained length 4
    with pytest.raises(ModelError, match="max_length"):
        model.decode(torch.randint(1, 29, (1, 5)), cache=model.new_cache())
    model.decode(torch.randint(1, 29, (1, 5)), cache=model.new_cache(max_length=5))


def test_kept_angles_are_the_computed_ones() -> None:
    positions = torch.tensor([[0, 3, 200], [7, 8, 9]])
    config = RopeConfig(theta=500.0)
    kept = cached_angles(config, 16, positions, 200)
    torch.testing.assert_close(kept, angles(config, 16, positions, 1), rtol=0, atol=0)


@pytest.mark.parametrize("num_heads", [1, 2, 4, 6, 8, 12])
def test_alibi_is_blooms(num_heads: int) -> None:
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    theirs = build_alibi_tensor(torch.ones(1, 9), num_heads, torch.float32).view(num_heads, 9)
    slopes = torch.tensor(alibi_slopes(num_heads))
    torch.testing.assert_close(slopes[:, None] * torch.arange(9), theirs)
    bias = AlibiBias(num_heads)(2, 9, CPU)
    assert bias.shape == (1, num_heads, 2, 9)
    # Bloom adds slope * key position, which differs by a constant per row.
    row = bias[0, :, -1]
    torch.testing.assert_close(row - row[:, :1], theirs)


@pytest.mark.parametrize("causal", [False, True])
def test_relative_buckets_are_t5s(causal: bool) -> None:
    from transformers.models.t5.modeling_t5 import T5Attention

    for num_buckets, max_distance in ((32, 128), (8, 12)):
        config = RelativeConfig(num_buckets=num_buckets, max_distance=max_distance)
        ours = RelativeBias(config, 2, causal=causal)
        offset = torch.arange(-300, 301)
        theirs = T5Attention._relative_position_bucket(
            -offset,
            bidirectional=not causal,
            num_buckets=num_buckets,
            max_distance=max_distance,
        )
        assert torch.equal(ours.buckets(offset), theirs)
