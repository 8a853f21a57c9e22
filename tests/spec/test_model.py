"""The whole model: properties that hold whatever the weights, one witness in plain loops, and the names of its taps.

It runs `ops.cache`, `ops.copy`, too.
"""

import math
from dataclasses import replace

import numpy as np
import pytest
from table_runs import run

from qwen3_spec import FLOAT64, SEQUENTIAL_FLOAT32, Arithmetic, SpecConfig, ops

CONFIG = SpecConfig(
    hidden_size=10,
    intermediate_size=14,
    num_hidden_layers=2,
    num_attention_heads=6,
    num_key_value_heads=2,
    head_dim=4,
    vocab_size=23,
    rms_norm_eps=1e-6,
    rope_theta=50.0,
    attention_bias=True,
    attention_out_bias=True,
    layer_types=("sliding_attention", "full_attention"),
    sliding_window=3,
)
FULL = replace(CONFIG, layer_types=())


def draw_weights() -> dict[str, np.ndarray]:
    """Weights of both stacks, all tensors different, norms away from 1."""
    rng = np.random.default_rng(13)
    hidden, inner = CONFIG.hidden_size, CONFIG.intermediate_size
    q, kv = CONFIG.num_attention_heads * CONFIG.head_dim, CONFIG.num_key_value_heads * CONFIG.head_dim
    linears = {"q_proj": (q, hidden), "k_proj": (kv, hidden), "v_proj": (kv, hidden), "o_proj": (hidden, q)}
    mlp = {"gate_proj": (inner, hidden), "up_proj": (inner, hidden), "down_proj": (hidden, inner)}
    weights: dict[str, np.ndarray] = {"lm_head.weight": rng.normal(0, 0.3, (CONFIG.vocab_size, hidden))}
    for stack, site in (("encoder", "self_attn"), ("decoder", "merged_attn")):
        weights[f"{stack}.embed_tokens.weight"] = rng.normal(0, 1, (CONFIG.vocab_size, hidden))
        weights[f"{stack}.norm.weight"] = rng.uniform(0.5, 1.5, hidden)
        for layer in (f"{stack}.layers.{n}" for n in range(CONFIG.num_hidden_layers)):
            for name, shape in linears.items():
                weights[f"{layer}.{site}.{name}.weight"] = rng.normal(0, 0.5, shape)
                weights[f"{layer}.{site}.{name}.bias"] = rng.normal(0, 0.2, shape[0])
            for name, shape in mlp.items():
                weights[f"{layer}.mlp.{name}.weight"] = rng.normal(0, 0.4, shape)
            for name in ("q_norm", "k_norm"):
                weights[f"{layer}.{site}.{name}.weight"] = rng.uniform(0.5, 1.5, CONFIG.head_dim)
            for name in ("input_layernorm", "post_attention_layernorm"):
                weights[f"{layer}.{name}.weight"] = rng.uniform(0.5, 1.5, hidden)
    return {name: value.astype(np.float32) for name, value in weights.items()}


WEIGHTS = draw_weights()
SOURCE = np.array([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3]])
TARGET = np.array([[2, 7, 1, 8, 2, 8], [1, 6, 1, 8, 0, 3]])
SOURCE_MASK, TARGET_MASK = np.ones(SOURCE.shape, int), np.ones(TARGET.shape, int)


def tables(mask: np.ndarray, config: SpecConfig = CONFIG) -> tuple[np.ndarray, np.ndarray]:
    return ops.rope_table.forward(
        ops.position_ids.counted(mask), ops.inv_freq.forward(config.head_dim, config.rope_theta)
    )


def encode(
    ids: np.ndarray,
    mask: np.ndarray,
    config: SpecConfig = CONFIG,
    taps: dict[str, np.ndarray] | None = None,
    arithmetic: Arithmetic = FLOAT64,
    weights: dict[str, np.ndarray] | None = None,
) -> np.ndarray:
    """The encoder's output."""
    cos, sin = tables(mask, config)
    known = {
        ("input.encoder_input_ids", 0): ids,
        ("input.encoder_attention_mask", 0): mask,
        ("encoder.cos", 0): cos,
        ("encoder.sin", 0): sin,
    }
    (found,) = run(weights or WEIGHTS, config, known, ["encoder"], arithmetic=arithmetic)
    made = {name: value for name, value in found.items() if not name.endswith("inv_freq")}
    if taps is not None:
        taps |= made
    return made["encoder.norm"]


def decode(
    ids: np.ndarray,
    mask: np.ndarray,
    source: tuple[np.ndarray, np.ndarray] | None = None,
    steps: list[int] | None = None,
    config: SpecConfig = CONFIG,
    taps: list[dict[str, np.ndarray]] | None = None,
    arithmetic: Arithmetic = FLOAT64,
    weights: dict[str, np.ndarray] | None = None,
) -> np.ndarray:
    """Logits of the whole target, decoded in `steps`; `source` is (encoder output, its mask)."""
    cos, sin = tables(mask, config)
    known = {("input.decoder_input_ids", 0): ids, ("input.decoder_attention_mask", 0): mask}
    if source is not None:
        memory_cos, memory_sin = tables(source[1], config)
        known |= {("encoder.norm", 0): source[0], ("input.encoder_attention_mask", 0): source[1]}
        known |= {("decoder.encoder_cos", 0): memory_cos, ("decoder.encoder_sin", 0): memory_sin}
    steps, start = steps or [ids.shape[1]], 0
    for step, size in enumerate(steps):
        now, start = slice(start, start + size), start + size
        known |= {("decoder.cos", step): cos[:, now], ("decoder.sin", step): sin[:, now]}
    stacks = ["decoder"] if source is None else ["encoder", "decoder"]
    found = run(weights or WEIGHTS, config, known, stacks, steps, arithmetic)
    own = [{n: v for n, v in seen.items() if not n.startswith("encoder.") and "inv_freq" not in n} for seen in found]
    if taps is not None:
        taps += own
    return np.concatenate([seen["logits"] for seen in own], axis=1)


MEMORY = (encode(SOURCE, SOURCE_MASK), SOURCE_MASK)


def changed(a: np.ndarray, b: np.ndarray) -> list[bool]:
    """Which positions of batch row 0 differ."""
    return [bool(d > 1e-6) for d in np.abs(a[0] - b[0]).max(axis=-1)]


def with_token(ids: np.ndarray, position: int) -> np.ndarray:
    other = ids.copy()
    other[0, position] = 22
    return other


def test_a_decoder_token_changes_nothing_before_it() -> None:
    logits = [decode(ids, TARGET_MASK, MEMORY) for ids in (TARGET, with_token(TARGET, 3))]
    assert changed(*logits) == [False] * 3 + [True] * 3


def test_an_encoder_token_changes_both_sides() -> None:
    outputs = [encode(ids, SOURCE_MASK, FULL) for ids in (SOURCE, with_token(SOURCE, 2))]
    assert changed(*outputs) == [True] * 5


def test_an_encoder_window_hides_what_is_further_away() -> None:
    config = replace(CONFIG, num_hidden_layers=1, layer_types=("sliding_attention",), sliding_window=1)
    outputs = [encode(ids, SOURCE_MASK, config) for ids in (SOURCE, with_token(SOURCE, 1))]
    assert changed(*outputs) == [True, True, True, False, False]


def test_a_decoder_window_of_w_reaches_w_minus_1_back() -> None:
    config = replace(CONFIG, num_hidden_layers=1, layer_types=("sliding_attention",), sliding_window=3)
    logits = [decode(ids, TARGET_MASK, MEMORY, config=config) for ids in (TARGET, with_token(TARGET, 1))]
    assert changed(*logits) == [False, True, True, True, False, False]


def test_an_encoder_token_changes_every_decoder_position() -> None:
    other = encode(with_token(SOURCE, 4), SOURCE_MASK)
    assert changed(decode(TARGET, TARGET_MASK, MEMORY), decode(TARGET, TARGET_MASK, (other, SOURCE_MASK))) == [True] * 6


def test_a_masked_encoder_token_changes_nothing() -> None:
    mask = np.array([[1, 1, 0, 1, 1], [1, 1, 1, 1, 1]])
    first, second = ((encode(ids, mask), mask) for ids in (SOURCE, with_token(SOURCE, 2)))
    np.testing.assert_array_equal(decode(TARGET, TARGET_MASK, second), decode(TARGET, TARGET_MASK, first))


@pytest.mark.parametrize("pad", [(2, 0), (0, 3), (1, 2)], ids=["left", "right", "both"])
def test_a_row_alone_equals_the_row_in_a_padded_batch(pad: tuple[int, int]) -> None:
    def padded(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray, slice]:
        row = np.pad(ids[:1], ((0, 0), pad), constant_values=21)
        mask = np.pad(np.ones_like(ids[:1]), ((0, 0), pad))
        other = np.arange(row.size)[None] % 19
        return (
            np.concatenate([row, other]),
            np.concatenate([mask, np.ones_like(mask)]),
            slice(pad[0], row.size - pad[1]),
        )

    source, source_mask, _ = padded(SOURCE)
    target, target_mask, real = padded(TARGET)
    batched = decode(target, target_mask, (encode(source, source_mask), source_mask))
    alone = decode(TARGET[:1], TARGET_MASK[:1], (encode(SOURCE[:1], SOURCE_MASK[:1]), SOURCE_MASK[:1]))
    np.testing.assert_allclose(batched[:1, real], alone, atol=1e-12)


def test_permuting_rows_permutes_the_outputs() -> None:
    swapped = decode(TARGET[::-1], TARGET_MASK, (encode(SOURCE[::-1], SOURCE_MASK), SOURCE_MASK))
    np.testing.assert_allclose(swapped[::-1], decode(TARGET, TARGET_MASK, MEMORY), atol=1e-12)


@pytest.mark.parametrize("memory", [MEMORY, None], ids=["merged", "causal"])
@pytest.mark.parametrize("steps", [[1] * 6, [3, 3], [2, 3, 1], [4, 1, 1]], ids=str)
def test_decoding_in_steps_equals_one_forward(steps: list[int], memory: tuple[np.ndarray, np.ndarray] | None) -> None:
    mask = np.array([[0, 1, 1, 1, 1, 1], [1] * 6])
    np.testing.assert_allclose(decode(TARGET, mask, memory, steps), decode(TARGET, mask, memory), atol=1e-12)


def test_an_encoder_of_length_0_is_no_encoder() -> None:
    empty = (np.empty((2, 0, CONFIG.hidden_size)), np.empty((2, 0), int))
    np.testing.assert_array_equal(decode(TARGET, TARGET_MASK, empty, [4, 2]), decode(TARGET, TARGET_MASK, None, [4, 2]))


def test_a_fully_masked_encoder_is_no_encoder() -> None:
    hidden = (MEMORY[0], np.zeros_like(SOURCE_MASK))
    np.testing.assert_allclose(decode(TARGET, TARGET_MASK, hidden), decode(TARGET, TARGET_MASK), atol=1e-12)


def test_merged_attention_equals_loops_over_heads_and_keys() -> None:
    seen: list[dict[str, np.ndarray]] = []
    mask = np.array([[1, 1, 0, 1, 1], [1] * 5])
    decode(TARGET, TARGET_MASK, (encode(SOURCE, mask), mask), config=FULL, taps=seen)
    site = "decoder.layers.1.merged_attn."
    tap = {name.removeprefix(site): value for name, value in seen[0].items()}
    for head, query in ((0, 0), (2, 3), (3, 4), (5, 5)):  # KV heads 0, 0, 1, 1
        kv = head // 3
        visible = [(tap["cache_keys"][0, kv, j], tap["cache_values"][0, kv, j]) for j in range(query + 1)]
        visible += [(tap["cache_encoder_keys"][0, kv, j], tap["cache_encoder_values"][0, kv, j]) for j in (0, 1, 3, 4)]
        weights = [math.exp(tap["q_rope"][0, head, query] @ key / 2) for key, _ in visible]  # sqrt(head_dim) = 2
        expected = sum(w * value for w, (_, value) in zip(weights, visible, strict=True)) / sum(weights)
        np.testing.assert_allclose(tap["context"][0, query, head], expected, rtol=1e-12)


def test_encoder_keys_are_projections_of_the_encoders_output_with_k_norm() -> None:
    seen: list[dict[str, np.ndarray]] = []
    decode(TARGET, TARGET_MASK, MEMORY, taps=seen)
    site = "decoder.layers.1.merged_attn"
    k = ops.linear.forward(MEMORY[0], WEIGHTS[f"{site}.k_proj.weight"], WEIGHTS[f"{site}.k_proj.bias"]).reshape(
        2, 5, 2, 4
    )
    expected = np.swapaxes(ops.rms_norm.forward(k, WEIGHTS[f"{site}.k_norm.weight"], 1e-6), 1, 2)
    rotated = ops.rope.forward(expected, *tables(SOURCE_MASK))
    np.testing.assert_array_equal(seen[0][f"{site}.cache_encoder_keys"], rotated)
    decode(TARGET, TARGET_MASK, MEMORY, config=replace(CONFIG, rotate_encoder_keys=False), taps=seen)
    assert f"{site}.encoder_k_rope" not in seen[1]
    # The stream into layer 1 does not reach these keys, so they differ by the rotation alone.
    np.testing.assert_array_equal(seen[1][f"{site}.cache_encoder_keys"], expected)


LINEARS = {
    "{s}.q_proj": "input_layernorm",
    "{s}.k_proj": "input_layernorm",
    "{s}.v_proj": "input_layernorm",
    "mlp.gate_proj": "post_attention_layernorm",
    "mlp.up_proj": "post_attention_layernorm",
    "mlp.down_proj": "mlp.act",
}
NORMS = {"input_layernorm": "input", "post_attention_layernorm": "attn_residual"}
SUMS = {"attn_residual": ("input", "{s}.o_proj"), "output": ("attn_residual", "mlp.down_proj")}


@pytest.mark.parametrize("name", [*LINEARS, *NORMS, *SUMS, "mlp.act", "{s}.o_proj"])
@pytest.mark.parametrize("stack", ["encoder", "decoder"])
def test_each_tap_of_a_layer_is_made_of_the_taps_it_should_be(stack: str, name: str) -> None:
    steps: list[dict[str, np.ndarray]] = [{}]
    encode(SOURCE, SOURCE_MASK, taps=steps[0])
    decode(TARGET, TARGET_MASK, MEMORY, taps=steps)
    site = "self_attn" if stack == "encoder" else "merged_attn"

    def place(name: str) -> str:
        return f"{stack}.layers.1.{name.format(s=site)}"

    def tap(name: str) -> np.ndarray:
        return steps[stack == "decoder"][place(name)]

    def parameter(kind: str) -> np.ndarray:
        return WEIGHTS[f"{place(name)}.{kind}"]

    if name in LINEARS:
        bias = parameter("bias") if "{s}" in name else None
        expected = ops.linear.forward(tap(LINEARS[name]), parameter("weight"), bias)
    elif name in NORMS:
        expected = ops.rms_norm.forward(tap(NORMS[name]), parameter("weight"), 1e-6)
    elif name in SUMS:
        expected = tap(SUMS[name][0]) + tap(SUMS[name][1])
    elif name == "mlp.act":
        expected = ops.swiglu.forward(tap("mlp.gate_proj"), tap("mlp.up_proj"), "silu")
    else:
        heads = tap("{s}.context")
        expected = ops.linear.forward(heads.reshape(*heads.shape[:2], 24), parameter("weight"), parameter("bias"))
    np.testing.assert_array_equal(tap(name), expected)


def test_logits_are_the_lm_head_on_the_final_norm_of_the_last_output() -> None:
    seen: list[dict[str, np.ndarray]] = []
    logits = decode(TARGET, TARGET_MASK, MEMORY, taps=seen)
    normed = ops.rms_norm.forward(seen[0]["decoder.layers.1.output"], WEIGHTS["decoder.norm.weight"], 1e-6)
    np.testing.assert_array_equal(logits, ops.linear.forward(normed, WEIGHTS["lm_head.weight"]))


def test_every_parameter_is_used() -> None:
    def output(weights: dict[str, np.ndarray]) -> np.ndarray:
        source = encode(SOURCE, SOURCE_MASK, weights=weights), SOURCE_MASK
        return decode(TARGET, TARGET_MASK, source, weights=weights)

    whole = output(WEIGHTS)
    unused = [name for name in WEIGHTS if np.allclose(output({**WEIGHTS, name: WEIGHTS[name] + 0.25}), whole)]
    assert unused == []


LAYER_END = ["attn_residual", "post_attention_layernorm"] + [
    f"mlp.{name}" for name in ("gate_proj", "up_proj", "act", "down_proj")
]
OWN = ["q_proj", "k_proj", "v_proj", "q_norm", "k_norm", "q_rope", "k_rope"]
MEMORY_ONCE = ["encoder_k_proj", "encoder_v_proj", "encoder_k_norm", "encoder_k_rope"]
CACHES = ["cache_keys", "cache_values", "cache_encoder_keys", "cache_encoder_values"]
ATTENTION_END = ["mask", "scores", "probs", "context", "o_proj"]


def expected_names(stack: str, site: str, attention: list[str]) -> list[str]:
    names = [f"{stack}.embed_tokens"]
    for n in range(CONFIG.num_hidden_layers):
        inside = ["input", "input_layernorm", *(f"{site}.{name}" for name in attention), *LAYER_END, "output"]
        names += [f"{stack}.layers.{n}.{name}" for name in inside]
    return [*names, f"{stack}.norm"]


def test_encoder_taps_come_in_execution_order() -> None:
    seen: dict[str, np.ndarray] = {}
    encode(SOURCE, SOURCE_MASK, taps=seen)
    assert list(seen) == expected_names("encoder", "self_attn", OWN + ATTENTION_END)


def test_decoder_taps_have_the_encoders_projections_at_step_0_alone() -> None:
    seen: list[dict[str, np.ndarray]] = []
    decode(TARGET, TARGET_MASK, MEMORY, [4, 2], taps=seen)
    first = expected_names("decoder", "merged_attn", OWN + MEMORY_ONCE + CACHES + ATTENTION_END)
    later = expected_names("decoder", "merged_attn", OWN + CACHES + ATTENTION_END)
    assert [list(step) for step in seen] == [[*first, "logits"], [*later, "logits"]]


def test_causal_taps_have_nothing_of_an_encoder() -> None:
    seen: list[dict[str, np.ndarray]] = []
    decode(TARGET, TARGET_MASK, taps=seen)
    assert list(seen[0]) == [*expected_names("decoder", "merged_attn", OWN + CACHES[:2] + ATTENTION_END), "logits"]


def test_a_model_without_qk_norm_has_no_such_taps() -> None:
    seen: list[dict[str, np.ndarray]] = []
    decode(TARGET, TARGET_MASK, MEMORY, config=replace(CONFIG, use_qk_norm=False), taps=seen)
    assert not [name for name in seen[0] if name.endswith(("q_norm", "k_norm"))]
    assert "decoder.layers.0.merged_attn.encoder_k_rope" in seen[0]


def test_taps_have_their_layouts() -> None:
    seen: list[dict[str, np.ndarray]] = []
    decode(TARGET, TARGET_MASK, MEMORY, [4, 2], taps=seen)
    site = "decoder.layers.0.merged_attn."
    shapes = {name.removeprefix(site): value.shape for name, value in seen[1].items()}
    layouts = {
        "q_proj": (2, 2, 24),
        "q_norm": (2, 2, 6, 4),
        "k_norm": (2, 2, 2, 4),
        "q_rope": (2, 6, 2, 4),
        "k_rope": (2, 2, 2, 4),
        "cache_values": (2, 2, 6, 4),
        "cache_encoder_keys": (2, 2, 5, 4),
        "mask": (2, 2, 11),
        "scores": (2, 6, 2, 11),
        "probs": (2, 6, 2, 11),
        "context": (2, 2, 6, 4),
        "o_proj": (2, 2, 10),
        "logits": (2, 2, 23),
    }
    assert {name: shapes[name] for name in layouts} == layouts


def test_a_layers_input_is_the_output_before_it() -> None:
    seen: dict[str, np.ndarray] = {}
    encode(SOURCE, SOURCE_MASK, taps=seen)
    np.testing.assert_array_equal(seen["encoder.layers.0.input"], seen["encoder.embed_tokens"])
    np.testing.assert_array_equal(seen["encoder.layers.1.input"], seen["encoder.layers.0.output"])


@pytest.mark.parametrize("arithmetic", [FLOAT64, SEQUENTIAL_FLOAT32], ids=["float64", "sequential"])
def test_every_float_tap_stays_in_its_arithmetic(arithmetic: Arithmetic) -> None:
    encoded: dict[str, np.ndarray] = {}
    hidden = encode(SOURCE, SOURCE_MASK, taps=encoded, arithmetic=arithmetic)
    steps: list[dict[str, np.ndarray]] = []
    decode(TARGET, TARGET_MASK, (hidden, SOURCE_MASK), [4, 2], taps=steps, arithmetic=arithmetic)
    dtypes = {value.dtype for seen in (encoded, *steps) for name, value in seen.items() if not name.endswith(".mask")}
    assert dtypes == {np.dtype(arithmetic.dtype)}


def test_float32_differs_from_truth_by_rounding_alone() -> None:
    truth = decode(TARGET, TARGET_MASK, MEMORY)
    actual = decode(TARGET, TARGET_MASK, MEMORY, arithmetic=SEQUENTIAL_FLOAT32)
    assert 0 < np.abs(actual - truth).max() < 1e-4 * np.abs(truth).max()


def test_what_follows_from_something_unknown_is_not_computed() -> None:
    known = {("input.decoder_input_ids", 0): TARGET, ("input.decoder_attention_mask", 0): TARGET_MASK}
    (found,) = run(WEIGHTS, CONFIG, known, ["encoder", "decoder"], [6])
    names = {name.removeprefix("decoder.layers.0.merged_attn.") for name in found}
    assert {"q_norm", "k_norm", "v_proj"} <= names and not {"scores", "encoder_k_proj", "logits"} & names


def test_a_place_can_be_computed_in_another_way() -> None:
    known = {
        ("input.encoder_input_ids", 0): SOURCE,
        ("input.encoder_attention_mask", 0): SOURCE_MASK,
        ("encoder.cos", 0): tables(SOURCE_MASK)[0],
        ("encoder.sin", 0): tables(SOURCE_MASK)[1],
    }
    doubled = {"encoder.layers.{layer}.mlp.act": lambda site: (2 * np.multiply(*site.inputs), None)}
    (right,), (wrong,) = (run(WEIGHTS, CONFIG, known, ["encoder"], overrides=one) for one in ({}, doubled))
    first = "encoder.layers.0.mlp.act"
    np.testing.assert_array_equal(
        wrong[first], 2 * right["encoder.layers.0.mlp.gate_proj"] * right["encoder.layers.0.mlp.up_proj"]
    )
    assert not np.allclose(wrong["encoder.norm"], right["encoder.norm"])
