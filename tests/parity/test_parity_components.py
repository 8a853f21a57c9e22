"""Whole runs against the goldens, bottom-up: a red component means its own taps, with everything below it green."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import pytest

from committed import committed
from qwen3_golden import pattern_of, place, table
from qwen3_parity.judge.not_parity import require, require_complete
from qwen3_parity.plugin import Judge
from qwen3_parity.recording.suite import goldens

# Bottom-up, each with the taps that show it: the order in which a port is debugged.
COMPONENTS: dict[str, tuple[str, ...]] = {
    "norm": ("*layernorm", "encoder.norm", "decoder.norm", "*.norm1", "*.norm2", "pre_norm.norm", "op.rms_norm"),
    "rope_tables": ("*position_ids", "*.inv_freq", "*cos", "*sin", "op.inv_freq", "op.rope_table"),
    "rope": ("*_rope", "op.rope"),
    "qk_norm": ("*q_norm", "*k_norm", "op.head_norm"),
    "gqa": ("op.repeat_kv",),
    "masks": ("*.mask", "op.mask"),
    "attention": (
        *("*q_proj", "*k_proj", "*v_proj", "*.scores", "*.probs", "*.context", "*.o_proj", "*.attn_residual"),
        *("*.qkv_proj", "*.self_attn.q", "*.self_attn.k", "*.self_attn.v", "*.out_proj"),
        *("op.linear", "op.scores", "op.softmax", "op.context"),
    ),
    "mlp": ("*.mlp.*", "*.feed_forward.*", "op.swiglu"),
    "encoder": (
        *("encoder.embed_tokens", "encoder.layers.*.input", "encoder.layers.*.output", "op.embedding"),
        *("*_norm.embed_*", "*_norm.embeddings", "*_norm.layers.*.input", "*_norm.layers.*.output"),
        *("post_norm.layers.*.ff_residual", "post_norm.last_hidden_state"),
    ),
    "merged_decoder": ("decoder.embed_tokens", "decoder.layers.*.input", "decoder.layers.*.output"),
    "cache": ("*.cache_*",),
    "logits": ("logits",),
    "generation": ("generated_ids", "next_token_probs", "op.next_token_probs"),
    "gradients": ("loss", "gradient.*"),
}


@cache
def component_of(name: str, op: str = "") -> str:
    """The component that a tap shows; `op` is the case's op for the outputs of an op alone."""
    label = f"op.{op}" if op else pattern_of(name)
    if label.startswith("gradient."):  # its last parts are those of the tap that it belongs to
        return "gradients"
    for component, globs in COMPONENTS.items():
        if any(fnmatchcase(label, glob) for glob in globs):
            return component
    raise KeyError(label)


def _components(golden: Path) -> set[str]:
    recording = committed(golden)
    names = (name for name in recording.taps if not name.startswith(("input.", "parameter.")))
    return {component_of(name, recording.case.op) for name in names}


GOLDENS = {path: _components(path) for path in goldens()}
PAIRS = [
    pytest.param(component, path, id=f"{component}-{path.parent.name}/{path.stem}")
    for component in COMPONENTS
    for path, present in GOLDENS.items()
    if component in present
]


@pytest.mark.parametrize("golden", [pytest.param(path, id=f"{path.parent.name}/{path.stem}") for path in GOLDENS])
def test_the_recording_is_complete_and_of_the_same_case(golden: Path, judge: Judge) -> None:
    verdicts = judge(golden)
    require_complete(verdicts)
    assert verdicts.compared > 0


@pytest.mark.parametrize(("component", "golden"), PAIRS)
def test_a_component_is_within_its_budget(component: str, golden: Path, judge: Judge) -> None:
    verdicts = judge(golden)
    taps = [tap for tap in verdicts.taps if component_of(tap.name, verdicts.case.op) == component]
    if not taps:
        missing = [name for name in verdicts.not_materialised if component_of(name.split(" ")[0]) == component]
        pytest.skip(f"never materialised: {', '.join(missing) or component}")
    require(verdicts, taps)


def test_every_component_is_shown_by_some_golden() -> None:
    assert set().union(*GOLDENS.values()) == set(COMPONENTS)


def test_every_place_of_the_table_belongs_to_a_component() -> None:
    for row in table():
        if row.op != "input":
            name = row.pattern.replace("{layer}", "0")
            assert place(name) is not None and component_of(name) in COMPONENTS
