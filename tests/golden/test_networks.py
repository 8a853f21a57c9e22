"""The networks that people write, and taps.textproto that is made from them."""

import re

import pytest

from qwen3_golden import GOLDEN_ROOT, networks, table
from qwen3_golden.networks import NETWORKS, blocks, bound

PATTERNS = {row.pattern for row in table()}


def test_the_committed_taps_are_what_the_networks_give() -> None:
    assert (GOLDEN_ROOT / "taps.textproto").read_text(encoding="utf-8") == networks.render()


def test_every_file_of_the_folder_is_a_network() -> None:
    assert {path.stem for path in (GOLDEN_ROOT / "networks").iterdir()} == set(NETWORKS)


@pytest.mark.parametrize("stack", ["encoder", "decoder", "pre_norm", "post_norm"])
def test_every_tap_of_a_stack_is_a_modules(stack: str) -> None:
    expected = {pattern for pattern in PATTERNS if pattern.startswith(f"{stack}.")}
    assert {one.pattern for one in bound(stack)} == expected


def test_gradients_need_no_module_of_their_own() -> None:
    assert not bound("gradient")


def test_a_layers_modules_stand_in_the_layer() -> None:
    for one in bound("decoder"):
        assert one.module.startswith("layers.{layer}") == ("{layer}" in one.pattern)


def test_a_row_that_no_module_has_says_where_it_is() -> None:
    words = {row.pattern: row.hf for row in table()}
    assert words["gradient.decoder.layers.{layer}.merged_attn.q_proj.weight"].startswith(
        "layers.{layer}.self_attn.q_proj.weight"
    )
    assert all(words[row.pattern] for row in table() if row.op != "input")


def test_names_within_a_block_are_relative() -> None:
    for block in blocks():
        for row in block.row:
            names = [name for text in row.inputs for name in text.split("|")]
            own = [name for name in names if block.prefix and name.startswith(f"{block.prefix}.")]
            assert not own, f"{row.name}: write {own} with a dot in front"


def test_the_decoders_encoder_half_is_marked() -> None:
    half = {one.pattern for one in bound("decoder") if one.row.encoder_half}
    assert half == {
        name
        for name in PATTERNS
        if re.search(r"^decoder\..*encoder_(position_ids|cos|sin|k_proj|v_proj|k_norm)$", name) and "cache" not in name
    }
