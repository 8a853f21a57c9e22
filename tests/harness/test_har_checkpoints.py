"""The committed checkpoints hide nothing: no unit norms, no zero biases, no equal tensors, no convenient sizes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file
from transformers import Qwen3Config, Qwen3ForCausalLM

from qwen3_golden import GOLDEN_ROOT, Array
from qwen3_golden.models import models
from qwen3_reference.cases.models import MODEL_CASES
from qwen3_reference.checkpoints.classic_configs import is_classic
from qwen3_reference.checkpoints.stored import read_directory

MODELS = sorted({GOLDEN_ROOT / "checkpoints" / case.checkpoint for case in MODEL_CASES})
"""Those of models that their own graph describes."""
DIRECTORIES = sorted(one for one in {*(GOLDEN_ROOT / "checkpoints").iterdir()} - {*MODELS} if not is_classic(one))
"""Those of Qwen3, Qwen2 and Llama."""
QWEN3_0_6B = {
    "hidden_size": 1024,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 3072,
    "vocab_size": 151936,
    "num_hidden_layers": 28,
}
"""The sizes of the smallest real Qwen3, from its model card."""


def config_of(directory: Path) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    config["head_dim"] = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
    return config


CONFIGS = {directory.name: config_of(directory) for directory in DIRECTORIES}
TWINS = {model.twin for model in models() if model.twin}
"""Made to be as the published models are, conveniences and all; the others are made to hide nothing.

(But for those whose sizes block formats and fused kernels ask for.)
"""
FREE = {name: one for name, one in CONFIGS.items() if name not in {*TWINS, "multiples-of-256", "head-dim-64"}}


def quiet(tensors: dict[str, Array]) -> Iterator[str]:
    """What a set of tensors cannot show, in words: nothing for a loud one."""
    for name, value in tensors.items():
        if "norm" in name and np.any(np.abs(np.abs(value) - 1) < 0.1):
            yield f"{name} is 1 somewhere"
        half = len(value) // 2
        if "norm" in name and np.array_equal(value[:half], value[half : 2 * half]):
            yield f"{name} is the same in both halves"
        if name.endswith("bias") and np.any(value == 0):
            yield f"{name} is 0 somewhere"
        if value.std() < 1e-2:
            yield f"{name} is nearly constant"
        if (same := name.replace("q_norm", "k_norm")) != name and np.ptp(value / tensors[same]) < 0.1:
            yield f"{name} is proportional to {same}"
    for (one, a), (two, b) in combinations(tensors.items(), 2):
        if a.shape == b.shape and np.array_equal(a, b):
            yield f"{one} equals {two}"


def tensors_of(directory: Path) -> dict[str, Array]:
    """The stored tensors by name, without a head that is tied and stored all the same."""
    stored = {name: one.float32() for name, one in read_directory(directory).items()}
    if config_of(directory)["tie_word_embeddings"]:
        stored.pop("lm_head.weight", None)
    return stored


def drawn_by_default(path: Path) -> dict[str, Array]:
    """The tensors of a small Qwen3 as it is initialised, with biases."""
    sizes = {"hidden_size": 40, "num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 10}
    more = {"vocab_size": 97, "intermediate_size": 56, "num_hidden_layers": 2, "attention_bias": True}
    Qwen3ForCausalLM(Qwen3Config(**sizes, **more)).save_pretrained(path)
    return load_file(path / "model.safetensors")


@pytest.mark.parametrize("directory", [*DIRECTORIES, *MODELS], ids=lambda path: path.name)
def test_har_05_a_committed_checkpoint_is_loud(directory: Path) -> None:
    assert list(quiet(tensors_of(directory))) == []


def test_har_05_a_freshly_initialised_checkpoint_would_be_noticed(tmp_path: Path) -> None:
    found = "\n".join(quiet(drawn_by_default(tmp_path)))
    for words in ("norm.weight is 1", "is proportional to", "bias is 0", "is the same in both halves", " equals "):
        assert words in found


def test_har_05_two_stacks_of_one_checkpoint_would_be_noticed() -> None:
    one = tensors_of(GOLDEN_ROOT / "checkpoints" / "tied-decoder")
    both = {f"{stack}.{name}": value for stack in ("encoder", "decoder") for name, value in one.items()}
    assert len([text for text in quiet(both) if " equals " in text]) == len(one)


def test_har_05_the_stacks_of_a_pair_share_their_embedding_alone() -> None:
    for pair in ("tied", "window", "qwen2"):
        stacks = (tensors_of(GOLDEN_ROOT / "checkpoints" / f"{pair}-{stack}") for stack in ("encoder", "decoder"))
        both = {f"{i}.{name}": value for i, one in enumerate(stacks) for name, value in one.items()}
        equal = [text for text in quiet(both) if " equals " in text]
        assert equal == ["0.model.embed_tokens.weight equals 1.model.embed_tokens.weight"]


def test_har_05_biases_are_there_in_qwen2_and_where_qwen3_switches_them_on() -> None:
    stored = {d.name: {name.split(".")[-2] for name in read_directory(d) if name.endswith("bias")} for d in DIRECTORIES}
    of_qkv = {"q_proj", "k_proj", "v_proj"}
    both = dict.fromkeys(("biased", "training-untied"), of_qkv | {"o_proj"})
    biased = {"qwen2-encoder": of_qkv, "qwen2-decoder": of_qkv} | both
    twins = {name: of_qkv for name in TWINS if CONFIGS[name]["model_type"] == "qwen2"}
    assert {name: projections for name, projections in stored.items() if projections} == biased | twins


SHAPES = {
    "more query than KV heads, more than one KV head": lambda c:
        (1 < c["num_key_value_heads"] < c["num_attention_heads"]),
    "groups are not the KV heads": lambda c:
        (c["num_attention_heads"] // c["num_key_value_heads"] != c["num_key_value_heads"]),
    "groups are no power of two": lambda c: (c["num_attention_heads"] // c["num_key_value_heads"]) & 1,
    "heads × head_dim is not hidden": lambda c: c["num_attention_heads"] * c["head_dim"] != c["hidden_size"],
    "head_dim is no multiple of 8": lambda c: c["head_dim"] % 8,
    "vocabulary is odd": lambda c: c["vocab_size"] % 2,
    "all sizes differ": lambda c: (len({c["hidden_size"], c["intermediate_size"], c["vocab_size"],
        c["num_attention_heads"] * c["head_dim"], c["num_key_value_heads"] * c["head_dim"]}) == 5),
}  # fmt: skip
"""What a configuration must have so that no wrong axis, group or size can be silent."""
ONE_KV_HEAD = "more query than KV heads, more than one KV head"
"""What the untied network of training lacks, and the tied one beside it has."""
COINCIDENCES = {
    "heads × head_dim = hidden": lambda c: c["num_attention_heads"] * c["head_dim"] == c["hidden_size"],
    "intermediate = hidden": lambda c: c["intermediate_size"] == c["hidden_size"],
}
"""What one configuration should have, so that code which tells axes apart by their size is found out."""


@pytest.mark.parametrize("shape", SHAPES)
def test_har_11_every_qwen3_checkpoint_has_a_shape_that_hides_nothing(shape: str) -> None:
    found = {n for n, c in FREE.items() if c["model_type"] == "qwen3" and not SHAPES[shape](c)}
    assert found == ({"training-untied"} if shape == ONE_KV_HEAD else set())


@pytest.mark.parametrize("coincidence", COINCIDENCES)
def test_har_11_a_coincidence_is_there_in_some_checkpoint(coincidence: str) -> None:
    assert any(COINCIDENCES[coincidence](config) for config in FREE.values())


def test_har_11_a_degenerate_configuration_would_be_noticed() -> None:
    plain = CONFIGS["tied-decoder"] | {"num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 210}
    assert {shape for shape in SHAPES if not SHAPES[shape](plain)} == {
        "groups are not the KV heads",
        "groups are no power of two",
        "heads × head_dim is not hidden",
        "all sizes differ",
        "vocabulary is odd",
    }


def relations(config: dict[str, Any]) -> dict[str, bool]:
    """How the sizes of a configuration stand to each other."""
    heads, kv_heads, width = config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"]
    return {
        "queries are wider than the stream": heads * width > config["hidden_size"],
        "keys are no wider than the stream": kv_heads * width <= config["hidden_size"],
        "heads are grouped": 1 < kv_heads < heads,
        "the MLP is wider than the stream": config["intermediate_size"] > config["hidden_size"],
        "the vocabulary is the largest": config["vocab_size"] > config["intermediate_size"],
        "there are several layers": config["num_hidden_layers"] > 1,
    }


NARROW_MLP = {"the MLP is wider than the stream"}
OTHER_PROPORTIONS = {
    "generation": NARROW_MLP,
    "generation-encoder": NARROW_MLP,
    "training-tied": NARROW_MLP,
    "training-untied": NARROW_MLP | {"heads are grouped"},
}
"""What the networks of generation and training, the smallest of all, do not share with the real one."""


def test_har_18_tiny_qwen3_checkpoints_have_the_proportions_of_the_real_one() -> None:
    for name, config in FREE.items():
        if config["model_type"] == "qwen3":
            real = relations(QWEN3_0_6B)
            others = {what for what, holds in relations(config).items() if holds != real[what]}
            assert others == OTHER_PROPORTIONS.get(name, set()), name


def test_har_18_no_tiny_checkpoint_keeps_a_size_of_the_real_one() -> None:
    for name, config in FREE.items():
        kept = {field for field, size in QWEN3_0_6B.items() if config[field] == size}
        assert not kept, name


def test_har_18_theta_and_epsilon_of_other_models_are_no_default_either() -> None:
    for directory in MODELS:
        config = config_of(directory)
        rope = config["rope_parameters"]
        thetas = {of["rope_theta"] for of in (rope, *rope.values()) if isinstance(of, dict) and "rope_theta" in of}
        assert thetas and not thetas & {1e4, 1.5e5, 1e6}, directory.name
        assert config["rms_norm_eps"] not in (1e-5, 1e-6)


def test_har_18_theta_and_epsilon_are_no_ones_default() -> None:
    def theta(config: dict[str, Any]) -> float:
        return float(config.get("rope_theta") or config["rope_parameters"]["rope_theta"])

    assert not {theta(config) for config in FREE.values()} & {1e4, 1e6}
    assert len({config["rms_norm_eps"] for config in FREE.values()}) >= 3
