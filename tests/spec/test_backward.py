"""The gradient of the whole model: central differences of its loss, and facts that hold whatever the weights.

It runs `ops.head_gradient`, too.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
import table_runs

from qwen3_golden import Network, pb
from qwen3_spec import FLOAT64, SEQUENTIAL_FLOAT32, Arithmetic, SpecConfig, ops
from qwen3_spec.config import ACTIVATIONS
from qwen3_spec.ops.loss import IGNORED_LABEL, cross_entropy
from qwen3_spec.site import Result, Site
from qwen3_spec.sweep import Specification

STEP = 1e-5
RELATIVE = 1e-6

CONFIG = SpecConfig(
    hidden_size=10,
    intermediate_size=7,
    num_hidden_layers=2,
    num_attention_heads=6,
    num_key_value_heads=2,
    head_dim=4,
    vocab_size=40,
    rms_norm_eps=1e-3,
    rope_theta=50.0,
    layer_types=("sliding_attention", "full_attention"),
    sliding_window=2,
)
CONFIGS = {
    "merged": CONFIG,
    "unrotated": replace(CONFIG, rotate_encoder_keys=False),
    "untied": replace(CONFIG, tie_word_embeddings=False),
    "qwen2": replace(CONFIG, use_qk_norm=False, attention_bias=True, tie_word_embeddings=False),
    "biases": replace(CONFIG, attention_bias=True, attention_out_bias=True),
    "no_groups": replace(CONFIG, num_key_value_heads=6, layer_types=()),
} | {act: replace(CONFIG, hidden_act=act) for act in ACTIVATIONS if act != "silu"}


SHARED = "shared.weight"


class StackInput(NamedTuple):
    """ids and mask `[batch, seq]`, `cos, sin[batch, seq, head_dim]`."""

    ids: np.ndarray
    mask: np.ndarray
    cos: np.ndarray
    sin: np.ndarray


class Gradients(NamedTuple):
    """The loss, its gradients by parameters, and those by activations."""

    loss: float
    parameters: dict[str, np.ndarray]
    activations: dict[str, np.ndarray]


def draw_weights(config: SpecConfig) -> dict[str, np.ndarray]:
    """Weights of both stacks in float64, all tensors different, norms away from 1."""
    rng = np.random.default_rng(13)
    hidden, inner, vocab = config.hidden_size, config.intermediate_size, config.vocab_size
    q, kv = config.num_attention_heads * config.head_dim, config.num_key_value_heads * config.head_dim
    linears = {"q_proj": (q, hidden), "k_proj": (kv, hidden), "v_proj": (kv, hidden), "o_proj": (hidden, q)}
    mlp = {"gate_proj": (inner, hidden), "up_proj": (inner, hidden), "down_proj": (hidden, inner)}
    biased = ["q_proj", "k_proj", "v_proj"] * config.attention_bias + ["o_proj"] * config.attention_out_bias
    weights: dict[str, np.ndarray] = {"lm_head.weight": rng.normal(0, 0.3, (vocab, hidden))}
    for stack, site in (("encoder", "self_attn"), ("decoder", "merged_attn")):
        weights[f"{stack}.embed_tokens.weight"] = rng.normal(0, 1, (vocab, hidden))
        weights[f"{stack}.norm.weight"] = rng.uniform(0.5, 1.5, hidden)
        for layer in (f"{stack}.layers.{n}" for n in range(config.num_hidden_layers)):
            for name, shape in linears.items():
                weights[f"{layer}.{site}.{name}.weight"] = rng.normal(0, 0.4, shape)
            for name in biased:
                weights[f"{layer}.{site}.{name}.bias"] = rng.normal(0, 0.3, linears[name][0])
            for name, shape in mlp.items():
                weights[f"{layer}.mlp.{name}.weight"] = rng.normal(0, 0.4, shape)
            for name in ("q_norm", "k_norm") if config.use_qk_norm else ():
                weights[f"{layer}.{site}.{name}.weight"] = rng.uniform(0.5, 1.5, config.head_dim)
            for name in ("input_layernorm", "post_attention_layernorm"):
                weights[f"{layer}.{name}.weight"] = rng.uniform(0.5, 1.5, hidden)
    return weights


def rows(*given: str) -> np.ndarray:
    return np.array([[int(slot) for slot in row] for row in given])


def stack_input(ids: np.ndarray, mask: np.ndarray, config: SpecConfig = CONFIG) -> StackInput:
    table = ops.rope_table.forward(
        ops.position_ids.counted(mask), ops.inv_freq.forward(config.head_dim, config.rope_theta)
    )
    return StackInput(ids, mask, *table)


# A padded encoder with a hole, an empty one; padding on both sides of the decoder, repeated tokens, ignored labels.
SOURCE = stack_input(np.array([[3, 1, 4, 1, 5], [9, 2, 6, 5, 3], [8, 9, 7, 9, 3]]), rows("01101", "11111", "00000"))
TARGET = stack_input(np.array([[2, 7, 1, 8], [2, 8, 1, 6], [1, 8, 0, 3]]), rows("1111", "0111", "1110"))
LABELS = np.array([[7, 1, -100, 8], [-100, 12, 1, 8], [39, 8, 0, -100]])
NOWHERE = "", np.zeros(())
BACKWARD = "gradient."
Known = dict[tuple[str, int], np.ndarray]


def inputs(target: StackInput, source: StackInput | None) -> Known:
    """What the specification is given of both stacks."""
    known: Known = {}
    for stack, one in {"decoder": target, **({} if source is None else {"encoder": source})}.items():
        known |= {(f"input.{stack}_input_ids", 0): one.ids, (f"input.{stack}_attention_mask", 0): one.mask}
        known |= {(f"{stack}.cos", 0): one.cos, (f"{stack}.sin", 0): one.sin}
    if source is not None:
        known |= {("decoder.encoder_cos", 0): source.cos, ("decoder.encoder_sin", 0): source.sin}
    return known


def stacks(source: StackInput | None) -> list[str]:
    return ["decoder"] if source is None else ["encoder", "decoder"]


def forward(
    weights: dict[str, np.ndarray],
    config: SpecConfig,
    target: StackInput,
    source: StackInput | None,
    pushed: tuple[str, np.ndarray] = NOWHERE,
) -> dict[str, np.ndarray]:
    """Every tap of the forward; `pushed` is a layer and what is added to its output."""

    def output(site: Site) -> Result:
        y = ops.OPS[site.place.op].at_site(site, FLOAT64)
        return (y + pushed[1] if site.place.name == f"{pushed[0]}.output" else y), None

    names = stacks(source)
    overrides = {f"{stack}.layers.{{layer}}.output": output for stack in names} if pushed[0] else {}
    known, steps = inputs(target, source), [target.ids.shape[1]]
    (taps,) = table_runs.run(weights, config, known, names, steps, overrides=overrides)
    return taps


def run(
    config: SpecConfig = CONFIG,
    target: StackInput = TARGET,
    labels: np.ndarray = LABELS,
    source: StackInput | None = SOURCE,
    weights: dict[str, np.ndarray] | None = None,
    arithmetic: Arithmetic = FLOAT64,
    training: pb.Training | None = None,
) -> Gradients:
    known = inputs(target, source) | {("input.labels", 0): labels}
    names, steps = [*stacks(source), "gradient"], [target.ids.shape[1]]
    weights = draw_weights(config) if weights is None else weights
    (taps,) = table_runs.run(weights, config, known, names, steps, arithmetic, training=training)
    gradients = {n.removeprefix(BACKWARD): value for n, value in taps.items() if n.startswith(BACKWARD)}
    of_parameters = {n for n in gradients if n.endswith((".weight", ".bias"))}
    return Gradients(
        float(taps["loss"]),
        {n: value for n, value in gradients.items() if n in of_parameters},
        {n: value for n, value in gradients.items() if n not in of_parameters},
    )


def uses_of_the_shared_matrix(config: SpecConfig, source: StackInput | None) -> list[str]:
    """The parameters that are one matrix."""
    places = [f"{stack}.embed_tokens.weight" for stack in stacks(source)]
    return [*places, "lm_head.weight"] if config.tie_word_embeddings else places


def loss_of(
    weights: dict[str, np.ndarray],
    config: SpecConfig,
    source: StackInput | None = SOURCE,
    pushed: tuple[str, np.ndarray] = NOWHERE,
) -> float:
    """The loss alone; `pushed` is a layer and what is added to its output."""
    return float(cross_entropy(forward(weights, config, TARGET, source, pushed=pushed)["logits"], LABELS))


def check_directions(loss: Callable[[np.ndarray], float], gradient: np.ndarray, name: str) -> None:
    """The central difference along a random direction against the gradient, in shares of its length."""
    direction = np.random.default_rng(len(name)).normal(size=gradient.shape)
    direction /= np.linalg.norm(direction)
    slope = (loss(STEP * direction) - loss(-STEP * direction)) / (2 * STEP)
    assert abs(slope - np.sum(gradient * direction)) <= RELATIVE * np.linalg.norm(gradient), name


@pytest.mark.sample(every=5)
@pytest.mark.parametrize("causal", [False, True], ids=["encoder_decoder", "causal"])
@pytest.mark.parametrize("name", CONFIGS)
def test_every_parameters_gradient_is_the_slope_of_the_loss(name: str, causal: bool) -> None:
    config, source = CONFIGS[name], None if causal else SOURCE
    weights = draw_weights(config)
    if causal:
        weights = {n: w for n, w in weights.items() if not n.startswith("encoder.")}
    loss, gradients, _ = run(config, source=source, weights=weights)
    own = {n: w for n, w in weights.items() if n not in uses_of_the_shared_matrix(config, source)}
    assert gradients.keys() == {*own, SHARED}
    assert loss == loss_of(weights, config, source)
    for parameter, weight in own.items():
        assert gradients[parameter].shape == weight.shape and gradients[parameter].any()

        def moved(by: np.ndarray, parameter: str = parameter) -> float:
            return loss_of({**weights, parameter: weights[parameter] + by}, config, source)

        check_directions(moved, gradients[parameter], parameter)


@pytest.mark.parametrize("name", ["merged", "untied"])
@pytest.mark.parametrize("causal", [False, True], ids=["encoder_decoder", "causal"])
def test_the_shared_gradient_is_the_slope_by_the_one_matrix(name: str, causal: bool) -> None:
    config, source = CONFIGS[name], None if causal else SOURCE
    weights = draw_weights(config)
    places = uses_of_the_shared_matrix(config, source)
    gradients = run(config, source=source, weights=weights).parameters

    def moved(by: np.ndarray) -> float:
        return loss_of(weights | {place: weights[place] + by for place in places}, config, source)

    check_directions(moved, gradients[SHARED], SHARED)


@pytest.mark.parametrize("layer", [f"{stack}.layers.{n}" for stack in ("encoder", "decoder") for n in (0, 1)])
def test_the_gradient_of_a_layers_output_is_the_slope_by_what_is_added_to_it(layer: str) -> None:
    gradient, weights = run().activations[f"{layer}.output"], draw_weights(CONFIG)
    check_directions(lambda by: loss_of(weights, CONFIG, SOURCE, (layer, by)), gradient, layer)


def test_without_a_tied_head_the_shared_gradient_is_that_of_the_rows_that_were_looked_up() -> None:
    gradients, by_row = run(CONFIGS["untied"]), np.zeros((CONFIG.vocab_size, CONFIG.hidden_size))
    for stack, given in (("encoder", SOURCE), ("decoder", TARGET)):
        for place in np.ndindex(given.ids.shape):
            by_row[given.ids[place]] += gradients.activations[f"{stack}.embed_tokens"][place]
    np.testing.assert_allclose(gradients.parameters[SHARED], by_row, rtol=1e-12, atol=1e-15)


def test_the_gradient_of_an_input_is_the_slope_by_its_row() -> None:
    source, target = (  # every slot reads a row of its own
        given._replace(ids=first + np.arange(given.ids.size).reshape(given.ids.shape))
        for given, first in ((SOURCE, 0), (TARGET, 20))
    )
    gradients = run(CONFIGS["untied"], target=target, source=source)
    for stack, given in (("encoder", source), ("decoder", target)):
        expected = gradients.parameters[SHARED][given.ids]
        np.testing.assert_array_equal(gradients.activations[f"{stack}.embed_tokens"], expected)


def test_a_padding_token_is_trained_by_a_tied_head_alone() -> None:
    # The same weights, of which the head is one more use of the matrix or a parameter of its own.
    weights, padding = draw_weights(CONFIG), pb.Training(padding_idx=1)
    tied, untied = (run(CONFIGS[name], weights=weights, training=padding) for name in ("merged", "untied"))
    np.testing.assert_array_equal(tied.parameters[SHARED][1], untied.parameters["lm_head.weight"][1])
    without = run(CONFIGS["untied"], weights=weights)
    assert without.parameters[SHARED][1].any()
    for name, expected in without.parameters.items():
        if name == SHARED:
            expected[1] = 0
        np.testing.assert_array_equal(untied.parameters[name], expected)


def test_there_is_the_gradient_of_every_float_activation_and_parameter() -> None:
    weights = draw_weights(CONFIG)
    values = forward(weights, CONFIG, TARGET, SOURCE)
    twice = (".mask", ".input", ".cache_keys", ".cache_values", ".cache_encoder_keys", ".cache_encoder_values")
    known = ("inv_freq",)  # of the angles, which are given
    branches = ("o_proj", "down_proj")  # whose gradient is that of the sum with the stream
    shapes = {name: value.shape for name, value in values.items() if not name.endswith((*twice, *known, *branches))}
    shapes |= {name: value.shape for name, value in weights.items()} | {SHARED: (CONFIG.vocab_size, CONFIG.hidden_size)}
    for name in uses_of_the_shared_matrix(CONFIG, SOURCE):
        del shapes[name]
    _, parameters, activations = run()
    assert {name: value.shape for name, value in (parameters | activations).items()} == shapes


def test_labels_that_are_all_ignored_give_loss_0_and_zeros() -> None:
    gradients = run(labels=np.full_like(LABELS, IGNORED_LABEL))
    assert gradients.loss == 0
    assert not [name for name, value in (gradients.parameters | gradients.activations).items() if value.any()]


def test_a_row_whose_labels_are_ignored_changes_nothing() -> None:
    source, target = (StackInput(*(part[:2] for part in given)) for given in (SOURCE, TARGET))
    ignored = LABELS.copy()
    ignored[2] = IGNORED_LABEL
    with_it, without = run(labels=ignored), run(labels=LABELS[:2], source=source, target=target)
    np.testing.assert_allclose(with_it.loss, without.loss, rtol=1e-14)
    for name, gradient in without.parameters.items():
        np.testing.assert_allclose(with_it.parameters[name], gradient, rtol=1e-9, atol=1e-14)


def test_padding_gets_no_gradient() -> None:
    gradients = run().activations
    for stack, given in (("encoder", SOURCE), ("decoder", TARGET)):
        reached = gradients[f"{stack}.embed_tokens"].any(axis=-1)
        np.testing.assert_array_equal(reached, given.mask.astype(bool))


def test_a_labelled_row_without_a_visible_key_reaches_nobody_elses_token() -> None:
    target = stack_input(TARGET.ids, rows("0111", "1111", "1111"))
    labels = np.full_like(LABELS, IGNORED_LABEL)
    labels[2, 1], labels[0, 0] = 5, 5  # row 0 sees nothing in slot 0, there is no encoder
    gradients = run(target=target, labels=labels, source=None)
    assert all(np.isfinite(value).all() for value in gradients.parameters.values())
    reached = gradients.activations["decoder.embed_tokens"].any(axis=-1)
    np.testing.assert_array_equal(reached, rows("1000", "0000", "1100"))  # its own token, through the residual stream


def test_permuting_rows_permutes_the_activations_gradients_alone() -> None:
    source, target = (StackInput(*(part[::-1] for part in given)) for given in (SOURCE, TARGET))
    first, second = run(), run(target=target, labels=LABELS[::-1], source=source)
    for name, gradient in first.activations.items():
        np.testing.assert_allclose(second.activations[name][::-1], gradient, rtol=1e-9, atol=1e-14)
    for name, gradient in first.parameters.items():
        np.testing.assert_allclose(second.parameters[name], gradient, rtol=1e-9, atol=1e-14)


def test_a_hidden_encoder_gets_no_gradient_and_changes_none() -> None:
    hidden, without = run(source=SOURCE._replace(mask=np.zeros_like(SOURCE.mask))), run(source=None)
    assert not [n for n, value in hidden.parameters.items() if n.startswith("encoder.") and value.any()]
    for name, gradient in without.parameters.items():
        np.testing.assert_allclose(hidden.parameters[name], gradient, rtol=1e-9, atol=1e-14)


def rounded_once(weights: dict[str, np.ndarray], seed: int) -> dict[str, np.ndarray]:
    """Weights each of which is off by up to half a float32 spacing at 1, in float64."""
    rng = np.random.default_rng(seed)
    return {n: w.astype(np.float64) * (1 + 2.0**-24 * rng.uniform(-1, 1, w.shape)) for n, w in weights.items()}


@pytest.mark.parametrize("name", CONFIGS)
def test_float32_differs_from_truth_by_rounding_alone(name: str) -> None:
    weights = {n: w.astype(np.float32) for n, w in draw_weights(CONFIGS[name]).items()}
    truth = run(CONFIGS[name], weights=weights)
    actual = run(CONFIGS[name], weights=weights, arithmetic=SEQUENTIAL_FLOAT32)
    gradients = (actual.parameters | actual.activations).values()
    assert {value.dtype for value in gradients} == {np.dtype(np.float32)}
    # How much one rounding of every weight moves each gradient says what float32 can keep of it: 2e-6 of most, 2e-5 of
    # the queries' norms where keys are not rotated. Sequential float32 came to 3 times that, with and without AVX2;
    # an epsilon off by a hundredth, to 52 times.
    moved = [run(CONFIGS[name], weights=rounded_once(weights, seed)) for seed in range(4)]
    for parameter, expected in truth.parameters.items():
        error = np.linalg.norm(actual.parameters[parameter] - expected)
        rounding = max(float(np.linalg.norm(one.parameters[parameter] - expected)) for one in moved)
        assert error < 12 * rounding, parameter


def test_what_every_layer_reads_sums_its_gradients_from_the_last_layer_on() -> None:
    # In float32 the order is in the bits, and in the committed floors. Two layers would add up either way.
    config = replace(CONFIG, num_hidden_layers=3, layer_types=())
    weights = {n: w.astype(np.float32) for n, w in draw_weights(config).items()}
    gradients = run(config, weights=weights, arithmetic=SEQUENTIAL_FLOAT32).activations
    total = np.zeros_like(gradients["encoder.norm"])
    for layer in (2, 1, 0):
        keys, values = (
            ops.linear.by_input(
                gradients[f"decoder.layers.{layer}.merged_attn.encoder_{name}"],
                weights[f"decoder.layers.{layer}.merged_attn.{name}.weight"],
                arithmetic=SEQUENTIAL_FLOAT32,
            )
            for name in ("k_proj", "v_proj")
        )
        total += keys + values
    np.testing.assert_array_equal(gradients["encoder.norm"], total)


class Observed(Specification):
    """A run that counts what it computes."""

    counts: Counter[str]

    def compute(self, site: Site) -> Result:
        self.counts[site.place.name] += 1
        return super().compute(site)


@pytest.fixture
def observed() -> Observed:
    message, known = table_runs.model_config(CONFIG), inputs(TARGET, SOURCE) | {("input.labels", 0): LABELS}
    case: Any = pb.Case(config=message, steps=[TARGET.ids.shape[1]])
    network = Network(message, frozenset({"encoder", "decoder", "gradient"}))
    run = Observed(network, case, CONFIG, draw_weights(CONFIG), known)
    run.counts = Counter()
    return run


def test_a_training_step_computes_every_place_once(observed: Observed) -> None:
    names: list[str] = []
    observed.walk(lambda _step, name, _value: names.append(name))
    assert observed.counts == Counter(names)


def test_the_way_back_forgets_a_layer_that_it_has_left(observed: Observed) -> None:
    held: dict[str, set[str]] = {}
    observed.walk(lambda _step, name, _value: held.__setitem__(name, {of for of, _ in observed.computed}))
    for stack in ("encoder", "decoder"):
        branches = (f"{stack}.layers.1.{name}." for name in ("mlp", "self_attn", "merged_attn"))
        of_layer = tuple(f"{beginning}{branch}" for branch in branches for beginning in ("", BACKWARD))
        here, behind = held[f"gradient.{stack}.layers.1.mlp.act"], held[f"gradient.{stack}.layers.0.mlp.act"]
        assert f"{stack}.layers.1.mlp.act" in here
        of_memory = ("encoder_k_proj", "encoder_v_proj")  # which the gradient of the encoder's output waits for
        assert [n for n in behind if n.startswith(of_layer) and not n.endswith(of_memory)] == []


def test_labels_of_another_length_are_refused() -> None:
    with pytest.raises(ValueError, match=r"\(3, 3\)"):
        run(labels=LABELS[:, :3])
