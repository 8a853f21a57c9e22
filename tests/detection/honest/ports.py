"""Other implementations: the NumPy port of examples/, and the specification itself as a candidate."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from detection.honest.attending import attention
from detection.honest.ours import Patch, ours
from detection.honest.softmaxes import wide_softmax
from detection.honest.variation import Build, Variation, float32_alone
from qwen3_golden import GOLDEN_ROOT, Array, Recording, pb, table
from qwen3_parity.recording.ours.network import EncoderDecoder
from qwen3_parity.recording.record import Runner, Tap
from qwen3_reference.checkpoints.spec_configs import spec_config
from qwen3_reference.checkpoints.weights import load_weights
from qwen3_reference.floors.arithmetics import spec_run
from qwen3_reference.floors.scope import Scope
from qwen3_spec import FLOAT64, SEQUENTIAL_FLOAT32, Arithmetic, SpecConfig, ops
from qwen3_spec.ops.argmax import choosing_steps, greedy_ids, search_of

_ARITHMETIC: dict[Any, pb.Arithmetic] = {np.float32: pb.ARITHMETIC_F32, np.float64: pb.ARITHMETIC_F64}


@cache
def numpy_port() -> Any:
    """The module examples/numpy_port.py of the clone."""
    path = GOLDEN_ROOT.parent / "examples" / "numpy_port.py"
    spec = importlib.util.spec_from_file_location("numpy_port", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _port(dtype: Any) -> Build:
    def factory(case: pb.Case, checkpoints: Mapping[str, Path]) -> Runner:
        runner: Runner = numpy_port().factory(case, checkpoints, dtype)
        return runner

    return lambda _dtype: factory


def _causal(golden: Recording) -> bool:
    """A decoder alone, or one layer of it, in float32."""
    case = golden.case
    alone = case.mode == pb.CAUSAL or (case.mode == pb.BLOCK and bool(case.steps))
    return alone and float32_alone(golden)


def _frequencies(config: SpecConfig) -> Array:
    inv_freq = ops.inv_freq.forward(
        config.head_dim, config.rope_theta, config.rope_scaling, arithmetic=SEQUENTIAL_FLOAT32
    )
    return inv_freq.astype(np.float32)


@dataclass(frozen=True)
class Specification:
    """A runner (see `record.Runner`) of `qwen3_spec`: it turns by the golden's tables and records its own."""

    weights: Mapping[str, Array]
    arithmetic: Arithmetic
    run: pb.Run
    producer: str = field(default="qwen3_spec")

    def __call__(self, case: pb.Case, inputs: Mapping[str, Array], tap: Tap, is_wanted: Callable[[str], bool]) -> None:
        """Run the case, and greedy generation by whole forwards; a search follows from the logits along its choices."""
        logits: list[Array] = []

        def keep(step: int, name: str, value: Array) -> None:
            if name == "logits":
                logits.append(value[:, -1])
            if is_wanted(name):
                tap(name, step, value)

        self._sources(case, inputs, keep)
        self._network(case, inputs, keep)
        if case.HasField("generation"):
            if case.generation.strategy != "sample":
                tap("generated_ids", 0, self._searched(case, inputs, logits))
        elif case.max_new_tokens:
            tap("generated_ids", 0, self._generated(case, inputs))

    def _searched(self, case: pb.Case, inputs: Mapping[str, Array], logits: list[Array]) -> Array:
        """What a search returns whose every step chose what the case forced, `[batch, new]`."""
        chosen = [logits[step] for step in choosing_steps(case.steps, case.generation)]
        forced = inputs["input.decoder_input_ids"][:, case.generation.prompt_length :]
        search = search_of(case.generation, case.max_new_tokens)
        return greedy_ids(chosen, forced, search).astype(np.int64)

    def _network(self, case: pb.Case, inputs: Mapping[str, Array], keep: Callable[[int, str, Array], None]) -> None:
        scope = Scope(case.config, inputs, tuple(case.steps), case if case.HasField("generation") else None)
        tables = {(name, 0): value for name, value in inputs.items() if not name.startswith("decoder.")}
        tables |= {(name, 0): value for name, value in inputs.items() if name.startswith("decoder.encoder_")}
        stop = 0
        for step, length in enumerate(case.steps):
            now = slice(stop, stop + length)
            stop += length
            for kind in ("decoder.cos", "decoder.sin"):
                tables[kind, step] = inputs[kind][:, now]
        spec_run(self.weights, scope, tables, keep, self.arithmetic)

    def _sources(self, case: pb.Case, inputs: Mapping[str, Array], keep: Callable[[int, str, Array], None]) -> None:
        """Positions, frequencies, cos and sin of each stack, step by step."""
        config = spec_config(case.config)
        float32 = SEQUENTIAL_FLOAT32  # a frequency is a float32 number: the reference's own
        inv_freq = _frequencies(config)

        def tables(prefix: str, step: int, positions: Array) -> None:
            cos, sin = ops.rope_table.forward(positions, inv_freq, config.attention_factor, arithmetic=float32)
            keep(step, f"{prefix}position_ids", positions)
            keep(step, f"{prefix}cos", cos)
            keep(step, f"{prefix}sin", sin)

        if "input.encoder_position_ids" in inputs:
            theirs = inputs["input.encoder_position_ids"]
            keep(0, "encoder.inv_freq", inv_freq)
            tables("encoder.", 0, theirs)
            if case.steps and config.rotate_encoder_keys:
                tables("decoder.encoder_", 0, theirs)
        stop = 0
        for step, length in enumerate(case.steps):
            keep(step, "decoder.inv_freq", inv_freq)
            tables("decoder.", step, inputs["input.decoder_position_ids"][:, stop : stop + length])
            stop += length

    def _generated(self, case: pb.Case, inputs: Mapping[str, Array]) -> Array:
        """Greedy continuation `[batch, new]` of the first step's ids, from the beginning each time."""
        fed = dict(inputs)
        for name in ("input_ids", "attention_mask", "position_ids"):
            fed[f"input.decoder_{name}"] = inputs[f"input.decoder_{name}"][:, : case.steps[0]]
        longer = pb.Case.FromString(case.SerializeToString())
        for _ in range(case.max_new_tokens):
            ids, mask = fed["input.decoder_input_ids"], fed["input.decoder_attention_mask"]
            longer.steps[:] = [ids.shape[1]]
            positions = ops.position_ids.counted(mask)
            config = spec_config(case.config)
            factor = config.attention_factor
            cos, sin = ops.rope_table.forward(positions, _frequencies(config), factor, arithmetic=SEQUENTIAL_FLOAT32)
            logits: list[Array] = []
            self._network(
                longer,
                fed | {"decoder.cos": cos, "decoder.sin": sin},
                lambda _step, name, value, logits=logits: logits.append(value) if name == "logits" else None,  # type: ignore[misc]
            )
            new = logits[0][:, -1].argmax(axis=-1)[:, None]
            fed["input.decoder_input_ids"] = np.concatenate((ids, new), axis=1)
            fed["input.decoder_attention_mask"] = np.concatenate((mask, np.ones_like(mask[:, :1])), axis=1)
        return fed["input.decoder_input_ids"][:, case.steps[0] :]


def _specification(arithmetic: Arithmetic) -> Build:
    def factory(case: pb.Case, checkpoints: Mapping[str, Path]) -> Specification:
        weights = load_weights(checkpoints.get("encoder"), checkpoints.get("decoder"))
        patterns = [row.pattern for row in table()]
        run = pb.Run(
            arithmetic=_ARITHMETIC[arithmetic.dtype], backend=pb.FOREIGN, materialised=patterns, golden_tables=True
        )
        return Specification(weights, arithmetic, run)

    return lambda _dtype: factory


def _doubled(runner: EncoderDecoder) -> Iterable[Patch]:
    """In float64 but for the norms; the softmax too, in which a float64 mask would overflow float32."""
    runner.model.double()
    return attention("model_double", softmax=wide_softmax)(runner)


VARIATIONS = (
    Variation("numpy_port", "the causal network in NumPy", _port(np.float32), _causal),
    Variation("numpy_port_float64", "the causal network in NumPy, float64", _port(np.float64), _causal),
    Variation(
        "sequential_float32", "float32, one term after the other", _specification(SEQUENTIAL_FLOAT32), float32_alone
    ),
    Variation("float64", "the specification in float64", _specification(FLOAT64), float32_alone),
    Variation(
        "model_double", "our model in float64", ours(_doubled, run={"arithmetic": pb.ARITHMETIC_F64}), float32_alone
    ),
)
