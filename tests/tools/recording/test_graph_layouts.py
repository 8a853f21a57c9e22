"""A tensor is recognised as a tap by the tap's axes and shape alone, or refused in words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from graph_goldens import BATCH, SLOTS, STEPS, distance, golden_of, inputs, moe
from hypothesis import assume, given
from hypothesis import strategies as st

import qwen3_parity
from qwen3_golden import Array, ParityError, Recording, pb, read, tensor
from qwen3_golden.recording import plain_provenance
from qwen3_parity import Case
from qwen3_parity.recording.graph_steps import cut_into_steps
from qwen3_parity.recording.slots import Forward
from qwen3_parity.recording.tap_axes import AmbiguousLayoutError, Part, lay_out, parse_groups, parts_of

QUERIES = [Part("batch", 3), Part("channel", 6), Part("query", 7), Part("channel", 10)]
ROWS = parts_of(("row", "channel"), (21, 12), 3)


def numbered(parts: list[Part]) -> Array:
    return np.arange(np.prod([part.size for part in parts]), dtype=np.int64).reshape([part.size for part in parts])


LAYOUTS = {
    "as it is": (QUERIES, lambda x: x),
    "positions before heads": (QUERIES, lambda x: x.transpose(0, 2, 1, 3)),
    "positions first": (QUERIES, lambda x: x.transpose(2, 0, 1, 3)),
    "heads joined": (QUERIES, lambda x: x.transpose(0, 2, 1, 3).reshape(3, 7, 60)),
    "rows flat, heads joined": (QUERIES, lambda x: x.transpose(0, 2, 1, 3).reshape(21, 60)),
    "rows flat": (QUERIES, lambda x: x.transpose(0, 2, 1, 3).reshape(21, 6, 10)),
    "heads of groups": (QUERIES, lambda x: x.reshape(3, 2, 3, 7, 10)),
    "an axis more": (QUERIES, lambda x: x[:, None]),
    "rows apart": (ROWS, lambda x: x.reshape(3, 7, 12)),
    "rows apart, channels too": (ROWS, lambda x: x.reshape(3, 7, 3, 4)),
    "heads before positions": (ROWS, lambda x: x.reshape(3, 7, 3, 4).transpose(0, 2, 1, 3)),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_layout_that_people_have_is_the_tap_bit_for_bit(name: str) -> None:
    parts, change = LAYOUTS[name]
    tap = numbered(parts)
    np.testing.assert_array_equal(lay_out(change(tap), parts), tap)


WRONG = {
    "channels in another order": lambda x: x.reshape(3, 5, 12, 7).transpose(0, 3, 1, 2),
    "channels regrouped": lambda x: x.reshape(3, 7, 5, 12),
    "positions within channels": lambda x: x.transpose(0, 1, 3, 2),
    "a row less": lambda x: x[:, :, 1:],
    "a head less": lambda x: x[:, 1:],
    "everything in one axis": lambda x: x.reshape(-1),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_layout_of_a_tap_is_none(name: str) -> None:
    with pytest.raises(ValueError, match="no reading"):
        lay_out(WRONG[name](numbered(QUERIES)), QUERIES)


SQUARE = [Part("batch", 2), Part("query", 6), Part("channel", 6), Part("channel", 10)]


def test_as_many_heads_as_positions_are_ambiguous_unless_the_place_or_the_axes_are_known() -> None:
    tap = numbered(SQUARE)
    with pytest.raises(AmbiguousLayoutError, match="batch query channel channel or batch channel query channel"):
        lay_out(tap, SQUARE)
    np.testing.assert_array_equal(lay_out(tap, SQUARE, by_name=True), tap)
    turned = parse_groups("batch heads query head_dim")
    np.testing.assert_array_equal(lay_out(tap.transpose(0, 2, 1, 3), SQUARE, turned), tap)
    np.testing.assert_array_equal(lay_out(tap.reshape(12, 60), SQUARE, parse_groups("(batch query) (heads dim)")), tap)


@given(st.permutations(range(3)), st.integers(1, 4), st.integers(1, 5), st.integers(1, 6), st.booleans())
def test_whatever_is_taken_for_a_tap_holds_its_elements(
    order: list[int], batch: int, query: int, heads: int, flat: bool
) -> None:
    assume(len({batch, query, heads}) == 3)
    parts = [Part("batch", batch), Part("query", query), Part("channel", heads), Part("channel", 7)]
    tap = numbered(parts)
    theirs = tap.transpose([*order, 3])
    theirs = theirs.reshape(batch * query, heads, 7) if flat and order == [0, 1, 2] else theirs
    try:
        laid = lay_out(theirs, parts)
    except ValueError:
        return
    assert laid.shape == tap.shape and sorted(laid.ravel()) == sorted(tap.ravel())
    if order.index(0) < order.index(2):  # texts within a head are nobody's, and may look like rows
        np.testing.assert_array_equal(laid, tap)


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    path = tmp_path_factory.mktemp("graph") / "moe.pb"
    return qwen3_parity.golden(golden_of(moe(), path, inputs(), STEPS))


def test_taps_are_assigned_by_name_short_or_long_a_step_or_all_at_once(case: Case, tmp_path: Path) -> None:
    gate = np.concatenate(
        [case.golden["model.layers.1.mlp.gate", step].array.reshape(BATCH, -1, 5) for step in range(len(STEPS))], 1
    )
    with qwen3_parity.record(None, case, path=tmp_path / "named.pb") as recording:
        recording["model.layers.0"] = case.golden["model.layers.0", 0].array.reshape(-1, 24)
        recording["logits", 2] = case.golden["logits", 2].array
        recording["layers.1.gate", :] = gate
        recording["model.layers.1.mlp.gate[2]"] = case.golden["model.layers.1.mlp.gate[2]", 0].array.astype(np.int32)
    recorded = read(recording.path, digests=True)
    names = [item.key for item in recorded if not item.info.name.startswith("input.")]
    assert names == [
        ("model.layers.0", 0),
        ("logits", 2),
        *[("model.layers.1.mlp.gate", step) for step in range(len(STEPS))],
        ("model.layers.1.mlp.gate[2]", 0),
    ]
    assert distance(recorded, case.golden) == 0 and recorded.case == case.golden.case


@pytest.mark.parametrize("name", ["logits", "lm_head"])
def test_logits_of_the_last_position_are_those_of_the_last_step(case: Case, name: str, tmp_path: Path) -> None:
    last = case.golden[name, 2].array[:, -1]
    with qwen3_parity.record(None, case, path=tmp_path / "last.pb") as recording:
        recording[name, :] = last
    (logits,) = [item for item in read(recording.path) if not item.info.name.startswith("input.")]
    assert logits.key == (name, 2)
    np.testing.assert_array_equal(logits.array[:, 0], last)


@pytest.mark.parametrize(
    ("name", "shape", "says"),
    [
        ("layers.7.mlp", (3, 7, 24), r"the golden has no tap of this name\n.*nearest are model.layers"),
        ("mlp", (3, 7, 24), r"more than one tap is called so\n.*model.layers.0.mlp, model.layers.1.mlp"),
        ("input.input_ids", (3, 7), "the golden has no tap of this name"),
        (
            "model.norm",
            (3, 6, 24),
            r"its shape is not that of model.norm: \[3, 6, 24\], not \[3, 7, 24\]\n"
            r"  expected: \[batch, query, channel\] = \[3, 7",
        ),
        (
            "layers.0.mlp.gate",
            (3, 5),
            r"mlp.gate: \[3, 5\], not \[21, 5\]\n  expected: \[row, channel\] = \[21, 5\].*\n  got: .* \[3, 5\]",
        ),
    ],
)
def test_a_name_or_a_shape_that_is_none_is_refused_in_words(
    case: Case, name: str, shape: tuple[int, ...], says: str, tmp_path: Path
) -> None:
    with (
        pytest.raises(ParityError, match=says),
        qwen3_parity.record(None, case, path=tmp_path / "none.pb") as recording,
    ):
        recording[name] = np.zeros(shape, np.float32)
    assert not list(tmp_path.iterdir())


def test_half_types_are_recorded_as_they_are(case: Case, tmp_path: Path) -> None:
    with qwen3_parity.record(None, case, path=tmp_path / "half.pb") as recording:
        for step, length in enumerate(STEPS):
            recording["model.norm", step] = np.ones((BATCH, length, 24), np.float16)
    assert {item.array.dtype.name for item in read(recording.path) if item.info.name == "model.norm"} == {"float16"}
    assert sum(STEPS) == SLOTS


def test_what_a_state_has_compressed_is_no_part_of_a_longer_forward_and_is_said_to_be_none() -> None:
    """Seven keys are compressed to one in the first step, nine to two by a forward of all."""
    shapes = [(2, 1, 7, 1), (2, 1, 1, 2), (2, 1, 1, 2)]
    axes = ("batch", "channel", "query", "key")
    taps = [tensor("state", np.zeros(shape, np.float32), step=step, axes=axes) for step, shape in enumerate(shapes)]
    case = pb.Case(name="compressed", mode=pb.GRAPH, steps=[7, 1, 1])
    golden = Recording(case, plain_provenance("qwen3_reference"), pb.Run(), taps)
    bounds = [(0, 7), (7, 8), (8, 9)]
    with pytest.raises(ParityError, match="its shape is not that of state"):
        list(cut_into_steps(np.zeros((2, 1, 9, 2)), golden, "state", Forward(0, 0, 9), bounds, 2, "state"))
