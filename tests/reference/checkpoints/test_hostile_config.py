"""A config.json that nobody could mean is refused in one message, by ours and by the reference's readers.

It runs `qwen3_encdec.config_bounds`, `checkpoints.config_bounds`, `weights.strict_json`,
`checkpoints.strict_json`, too.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qwen3_encdec import Qwen3EncoderDecoderConfig
from qwen3_encdec.weights.qwen3_checkpoint import load_qwen3
from qwen3_golden import GOLDEN_ROOT, ParityError
from qwen3_reference.checkpoints.config_bounds import out_of_bounds
from qwen3_reference.checkpoints.configs import model_config

SOURCE = GOLDEN_ROOT / "checkpoints" / "even-window"
CONFIG = json.loads((SOURCE / "config.json").read_text())
SIZES = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "head_dim")
FIELDS: list[tuple[str, object]] = [
    *((name, value) for name in SIZES for value in (-1, 10**30, 1e30, 2.5, True, "7", [1])),
    *(("model_type", value) for value in (["qwen3"], {"qwen3": 1}, None, 3, True)),
    ("num_hidden_layers", 100_000),
    ("num_key_value_heads", -2),
    ("max_position_embeddings", 10**18),
    *(("rms_norm_eps", value) for value in (0, -1e-6, float("inf"), float("nan"), True, "1e-6", 1e30)),
    *(("rope_theta", value) for value in (0, -1.0, float("inf"), float("nan"), True, "1e6", 1e300)),
]
TEXTS = {
    "a name twice": ('{"hidden_size": 4, "hidden_size": 5}', "twice"),
    "deep lists": ("[" * 100_000, "nested"),
    "deep objects": ('{"a":' * 100_000, "nested"),
    "a little too deep": ('{"a": ' + "[" * 70 + "]" * 70 + "}", "nested"),
    "5,000 digits": ('{"hidden_size": ' + "9" * 5000 + "}", "5000 digits"),
    "a float beyond float64": ('{"hidden_size": 1e999}', "beyond float64"),
    "a constant": ('{"hidden_size": -Infinity}', "-Infinity"),
    "half a character": ('{"architectures": ["\\ud800"]}', "U+D800"),
    "half a character as a name": ('{"\\uDFFF": 1}', "U+DFFF"),
    "a list": ("[]", "object"),
    "nothing": ("", ""),
}


def ours(directory: Path) -> object:
    return load_qwen3(directory)


def theirs(directory: Path) -> object:
    return model_config(directory)


READERS: list[Callable[[Path], object]] = [ours, theirs]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SOURCE, tmp_path / "x"))


def refused(reader: Callable[[Path], object], directory: Path, words: str) -> None:
    with pytest.raises((ValueError, ParityError)) as caught:
        reader(directory)
    text = str(caught.value)
    assert words in text and "config.json" in text and len(text) < 1000, text[:2000]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(("field", "value"), FIELDS)
def test_an_impossible_number_is_refused_by_its_field(
    reader: Callable[[Path], object], field: str, value: object, directory: Path
) -> None:
    (directory / "config.json").write_text(json.dumps(CONFIG | {field: value}))
    no_json = isinstance(value, float) and not abs(value) < float("inf")
    refused(
        reader,
        directory,
        "no number of JSON" if no_json else "digits" if value == 10**30 and isinstance(value, int) else field,
    )


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("mistake", TEXTS)
def test_a_text_that_is_no_strict_json_is_refused(
    reader: Callable[[Path], object], mistake: str, directory: Path
) -> None:
    text, words = TEXTS[mistake]
    (directory / "config.json").write_text(text)
    refused(reader, directory, words)


@pytest.mark.parametrize("reader", READERS)
def test_a_config_of_more_than_the_limit_is_not_read(reader: Callable[[Path], object], directory: Path) -> None:
    with (directory / "config.json").open("wb") as file:
        file.truncate(1 << 40)  # a hole: no disk is used
    refused(reader, directory, "more than")


@pytest.mark.parametrize("sizes", [[], [40], [40, 48, 1]])
def test_sizes_of_each_layer_are_within_bounds_where_any_family_is_read(sizes: list[int]) -> None:
    assert out_of_bounds({"intermediate_size": sizes}) is not None
    assert out_of_bounds({"intermediate_size": sizes}, of_any_family=True) is None


def test_heads_of_width_0_are_for_families_that_the_graph_describes() -> None:
    assert out_of_bounds({"head_dim": 0}, of_any_family=True) is None and out_of_bounds({"head_dim": 0}) is not None
    assert out_of_bounds({"head_dim": -1}, of_any_family=True) is not None


@pytest.mark.parametrize("sizes", [[40, 0], [40, 10**30], [40, "x"], [[40]], [True], [None], [1] * 2000, (4,), {}])
def test_sizes_of_each_layer_that_cannot_be_are_refused(sizes: object) -> None:
    wrong = out_of_bounds({"intermediate_size": sizes}, of_any_family=True)
    assert wrong is not None and wrong[0] == "intermediate_size"


def test_layers_that_have_no_tensors_are_never_built(directory: Path) -> None:
    fields = {"num_hidden_layers": 1000, "layer_types": ["full_attention"] * 1000}
    (directory / "config.json").write_text(json.dumps(CONFIG | fields))
    with pytest.raises(ValueError, match=r"num_hidden_layers = 1000, and .* holds only"):
        load_qwen3(directory)


@pytest.mark.parametrize(
    "fields", [{"num_hidden_layers": 100_000}, {"hidden_size": 10**30}, {"rms_norm_eps": float("inf")}]
)
def test_the_class_refuses_the_same_numbers(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(fields))):
        Qwen3EncoderDecoderConfig(**fields)


@pytest.mark.parametrize("theta", [float("inf"), float("nan"), 1e300])
def test_the_class_refuses_a_base_that_is_no_number(theta: float) -> None:
    with pytest.raises(ValueError, match="rope_theta"):
        Qwen3EncoderDecoderConfig(rope_theta=theta)


@pytest.mark.parametrize("reader", READERS)
def test_escaped_characters_that_are_whole_are_read(reader: Callable[[Path], object], directory: Path) -> None:
    text = json.dumps(CONFIG | {"_name_or_path": "\U0001f600 \\ud800"})
    assert "\\ud83d" in text
    (directory / "config.json").write_text(text)
    assert reader(directory)
