"""The classic encoder's specification on cases whose answers are known, without torch."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import table_runs

from qwen3_spec import FLOAT64, SEQUENTIAL_FLOAT32, Arithmetic, ops
from qwen3_spec.classic_config import ClassicConfig

CONFIG = ClassicConfig(
    hidden_size=6,
    intermediate_size=5,
    num_hidden_layers=2,
    num_attention_heads=2,
    num_key_value_heads=2,
    head_dim=3,
    vocab_size=7,
    rms_norm_eps=0.0,
    rope_theta=0.0,
    hidden_act="gelu",
)
MASK = np.array([[True, True, True, False], [False, True, True, True]])
IDS = np.array([[1, 2, 3, 0], [0, 4, 5, 6]])
SLOTS = np.broadcast_to(np.arange(4), (2, 4))


def network(config: ClassicConfig) -> str:
    return "pre_norm" if config.norm_first else "post_norm"


def weights(config: ClassicConfig, seed: int = 0) -> dict[str, np.ndarray]:
    """Every parameter by canonical name, drawn."""
    draw, name, width = np.random.default_rng(seed), network(config), config.hidden_size
    shapes = {"embed_tokens": (7, width), "embed_positions": (9, width), "norm": (width,)}
    for layer in range(config.num_hidden_layers):
        for part, shape in (
            ("self_attn.qkv_proj", (3 * width, width)),
            ("self_attn.out_proj", (width, width)),
            ("feed_forward.linear1", (5, width)),
            ("feed_forward.linear2", (width, 5)),
            ("norm1", (width,)),
            ("norm2", (width,)),
        ):
            shapes[f"layers.{layer}.{part}"] = shape
    drawn = {f"{name}.{part}.weight": draw.normal(size=shape) for part, shape in shapes.items()}
    return drawn | {f"{name}.{part}.bias": draw.normal(size=shape[:1]) for part, shape in shapes.items()}


def run(
    config: ClassicConfig, given: dict[str, np.ndarray], arithmetic: Arithmetic = FLOAT64, **changes: np.ndarray
) -> dict[str, np.ndarray]:
    """Every tap by its name without the network's, the output as "last"."""
    inputs = {"encoder_input_ids": IDS, "encoder_position_ids": SLOTS, "encoder_attention_mask": MASK}
    inputs |= {name if name == "hidden_states" else f"encoder_{name}": value for name, value in changes.items()}
    known = {(f"input.{name}", 0): value for name, value in inputs.items()}
    (found,) = table_runs.run(given, config, known, [network(config)], arithmetic=arithmetic)
    taps = {name.partition(".")[2]: value for name, value in found.items()}
    return taps | {"last": taps["norm" if config.norm_first else "last_hidden_state"]}


def test_layer_norm_of_two_numbers_is_their_signs() -> None:
    y = ops.layer_norm.forward(np.array([[3.0, 7.0]]), np.array([2.0, 5.0]), np.array([1.0, 0.0]), 0.0)
    assert y.tolist() == [[-1.0, 5.0]]


def test_the_variance_of_layer_norm_is_divided_by_n() -> None:
    y = ops.layer_norm.forward(np.array([[0.0, 0.0, 3.0]]), np.ones(3), np.zeros(3), 0.0)
    np.testing.assert_allclose(y, [[-(0.5**0.5), -(0.5**0.5), 2**0.5]], rtol=1e-15)


def test_the_eps_of_layer_norm_is_inside_the_root() -> None:
    y = ops.layer_norm.forward(np.array([[-1.0, 1.0]]), np.ones(2), np.zeros(2), 3.0)
    assert y.tolist() == [[-0.5, 0.5]]


def test_layer_norm_does_not_see_what_is_added_to_a_whole_row() -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 8))
    one, two = (ops.layer_norm.forward(x + by, np.ones(8), np.zeros(8), 1e-5) for by in (0, 100))
    np.testing.assert_allclose(one, two, atol=1e-12)


@pytest.mark.parametrize(("name", "at_one"), [("gelu", 0.5 * (1 + math.erf(0.5**0.5))), ("relu", 1.0)])
def test_an_activation_keeps_0_and_has_its_value_at_1(name: str, at_one: float) -> None:
    assert ops.activation.forward(np.array([0.0, 1.0]), name).tolist() == [0.0, at_one]


def test_tokens_are_scaled_and_positions_are_not() -> None:
    assert ops.scaled_sum.forward(np.array([2.0]), np.array([5.0]), 3.0).tolist() == [11.0]


def test_a_fused_projection_is_q_then_k_then_v_each_head_by_head() -> None:
    q, k, v = (ops.split_heads.forward(np.arange(12.0)[None, None], part, 2) for part in "qkv")
    assert [one[0, :, 0].tolist() for one in (q, k, v)] == [[[0, 1], [2, 3]], [[4, 5], [6, 7]], [[8, 9], [10, 11]]]


@pytest.mark.parametrize("eps", [1e-5, 1e-12])
@pytest.mark.parametrize("change", [lambda x: x, lambda x: x + 3, lambda x: x * 1e-3, lambda x: np.where(x < 1, 0, x)])
@pytest.mark.parametrize("width", [10, 768])
def test_honest_layer_norms_are_within_a_few_units(
    width: int, change: Callable[[np.ndarray], np.ndarray], eps: float
) -> None:
    draw = np.random.default_rng(width)
    x = change(draw.normal(size=(3, 5, width))).astype(np.float32)
    weight, bias = draw.normal(1, 0.5, width).astype(np.float32), draw.normal(0, 0.5, width).astype(np.float32)
    y = ops.layer_norm.forward(x, weight, bias, eps)
    unit = ops.layer_norm.unit(y, x, weight, bias, eps)
    size = np.float32(width)
    mean, square = (one.sum(-1, keepdims=True, dtype=np.float32) / size for one in (x, x * x))
    by_squares = weight * ((x - mean) / np.sqrt(np.maximum(square - mean * mean, 0) + np.float32(eps))) + bias
    plain = ops.layer_norm.forward(x, weight, bias, eps, arithmetic=SEQUENTIAL_FLOAT32)
    assert max(float((np.abs(one - y) / unit).max()) for one in (plain, by_squares)) < 4


def test_a_layer_norm_of_another_eps_is_many_units_off() -> None:
    x = np.random.default_rng(0).normal(size=(1, 4, 64)).astype(np.float32)
    right, wrong = (ops.layer_norm.forward(x, np.ones(64), np.zeros(64), eps) for eps in (1e-5, 1e-6))
    unit = ops.layer_norm.unit(right, x, np.ones(64), np.zeros(64), 1e-5)
    assert float(np.sqrt(np.mean(((wrong - right) / unit) ** 2))) > 20


@pytest.mark.parametrize("norm_first", [True, False])
def test_branches_of_zero_leave_the_stream_alone(norm_first: bool) -> None:
    config = replace(CONFIG, norm_first=norm_first)
    given = {n: 0 * w if "out_proj" in n or "linear2" in n else w for n, w in weights(config).items()}
    taps = run(config, given)
    if norm_first:
        np.testing.assert_array_equal(taps["layers.1.output"], taps["embeddings"])
    else:
        np.testing.assert_array_equal(taps["layers.0.attn_residual"], taps["embeddings"])
        np.testing.assert_array_equal(taps["layers.0.ff_residual"], taps["layers.0.norm1"])


@pytest.mark.parametrize("norm_first", [True, False])
def test_the_output_is_normed_once_behind_the_last_sum(norm_first: bool) -> None:
    config = replace(CONFIG, norm_first=norm_first)
    given = weights(config)
    given |= {n: np.ones(6) if n.endswith("weight") else np.zeros(6) for n in given if "norm2." in n or "m.norm." in n}
    last = run(config, given)["last"]
    np.testing.assert_allclose(last.mean(axis=-1), 0, atol=1e-12)
    np.testing.assert_allclose(last.var(axis=-1), 1, atol=1e-4)


@pytest.mark.parametrize("norm_first", [True, False])
def test_what_stands_in_padding_moves_nothing_else(norm_first: bool) -> None:
    config = replace(CONFIG, norm_first=norm_first)
    given = weights(config)
    one, two = (run(config, given, input_ids=ids)["last"] for ids in (IDS, np.where(MASK, IDS, 6)))
    np.testing.assert_array_equal(one[MASK], two[MASK])
    assert not np.array_equal(one, two)


def test_equal_scores_weigh_the_visible_keys_alike() -> None:
    given = {n: 0 * w if "qkv_proj" in n else w for n, w in weights(CONFIG).items()}
    probs = run(CONFIG, given)["layers.0.self_attn.probs"]
    np.testing.assert_allclose(probs[0, 0, 0], [1 / 3, 1 / 3, 1 / 3, 0])


def test_without_the_scale_embeddings_are_added_as_they_are() -> None:
    taps = run(replace(CONFIG, scale_embeddings=False), weights(CONFIG))
    np.testing.assert_array_equal(taps["embeddings"], taps["embed_tokens"] + taps["embed_positions"])


@pytest.mark.parametrize("norm_first", [True, False])
def test_plain_float32_stays_near_the_truth(norm_first: bool) -> None:
    config = replace(CONFIG, norm_first=norm_first)
    given = {name: value.astype(np.float32) for name, value in weights(config).items()}
    truth, plain = run(config, given), run(config, given, SEQUENTIAL_FLOAT32)
    assert truth.keys() == plain.keys()
    for name, value in truth.items():
        assert plain[name].dtype in (np.float32, np.bool_)
        np.testing.assert_allclose(plain[name], value, rtol=1e-4, atol=1e-4)


def test_hidden_states_take_the_place_of_embeddings() -> None:
    config = replace(CONFIG, norm_first=False, starts_with_hidden_states=True)
    given = weights(config)
    states = run(replace(config, starts_with_hidden_states=False), given)
    taps = run(config, given, hidden_states=states["embeddings"])
    np.testing.assert_array_equal(taps["last"], states["last"])


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"num_attention_heads": 4, "num_key_value_heads": 4}, "4 × head_dim 3 is not hidden_size 6"),
        ({"num_key_value_heads": 1}, "num_key_value_heads 1 is not num_attention_heads 2"),
        ({"hidden_act": "swish"}, "hidden_act 'swish'"),
        ({"layer_norm_eps": -1.0}, "layer_norm_eps -1.0 is negative"),
    ],
)
def test_an_impossible_configuration_is_refused(changes: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        replace(CONFIG, **changes)  # type: ignore[arg-type]
