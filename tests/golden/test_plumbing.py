"""The self-test recordings: committed bytes are those that are built, and hold what the README lists."""

import re
from pathlib import Path

import numpy as np
import pytest

from qwen3_golden import GOLDEN_ROOT, pb, plumbing, read, wire

FOLDER = GOLDEN_ROOT / "cases" / "plumbing"
FILES = sorted(path for path in FOLDER.glob("*.pb") if path.stem != "damaged")  # of which nothing is written again
LINE = re.compile(
    r"^\| `(plumbing\.[a-z0-9_.]+)` \| ([A-Z0-9]+) \| `\[([0-9, ]*)\]` \| (\d) \|[^|]*\| `([0-9a-f ]*)` \|$", re.M
)


def test_the_committed_bytes_are_those_of_a_fresh_build(tmp_path: Path) -> None:
    plumbing.build(tmp_path)
    fresh = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    assert {p.name: p.read_bytes() for p in FOLDER.iterdir()} == fresh


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_a_self_test_is_a_case_of_its_own_kind(path: Path) -> None:
    case = read(path, digests=True).case
    assert (case.name, case.mode, case.tier) == (f"plumbing/{path.stem}", pb.PLUMBING, pb.TIER_OP)
    assert case.description


def test_the_readme_lists_every_self_test_tensor_byte_for_byte() -> None:
    text = (GOLDEN_ROOT / "README.md").read_text(encoding="utf-8")
    listed = {
        (name, int(step)): (dtype, [int(n) for n in shape.split(",") if n], bytes.fromhex(payload))
        for name, dtype, shape, step, payload in LINE.findall(text)
    }
    stored = {
        t.key: (pb.DType.Name(t.info.dtype), list(t.info.shape), t.array.tobytes())
        for path in FILES
        for t in read(path)
    }
    assert listed == stored


def test_every_dtype_has_a_matrix_that_is_not_square_and_a_scalar() -> None:
    names = {pb.DType.Name(code) for code in pb.DType.values()[1:]}
    for file, shape in (("dtypes", (2, 3)), ("unpadded", (2, 3)), ("shapes", ())):
        tensors = [t for t in read(FOLDER / f"{file}.pb") if t.array.shape == shape]
        assert {pb.DType.Name(t.info.dtype) for t in tensors} == names


@pytest.mark.parametrize("name", ["f64", "f32", "f16"])
def test_the_special_values_are_those_of_numpy(name: str) -> None:
    got = read(FOLDER / "specials.pb")[f"plumbing.specials.{name}", 0].array
    limits = np.finfo(got.dtype)
    with np.errstate(under="ignore"):
        below = np.nextafter(limits.smallest_normal, got.dtype.type(0))
    expected = [0, -0.0, np.inf, -np.inf, *[np.nan] * 4, limits.smallest_subnormal, -limits.smallest_subnormal]
    expected += [below, limits.smallest_normal, limits.max, -limits.max]
    assert np.array_equal(got, np.array(expected, got.dtype), equal_nan=True)
    assert np.signbit(got).tolist() == [i % 2 == 1 for i in range(6)] + [False] * 3 + [True] + [False] * 3 + [True]


def test_the_special_bfloat16_values_are_the_upper_halves_of_float32_ones() -> None:
    tensors = read(FOLDER / "specials.pb")
    bfloat16 = tensors["plumbing.specials.bf16", 0].values()
    float32 = tensors["plumbing.specials.f32", 0].array
    assert np.array_equal(np.isnan(bfloat16), np.isnan(float32))
    exact = [0, 1, 2, 3, 11]  # zeros, infinities, the smallest normal number
    assert np.array_equal(bfloat16[exact].view("u4"), float32[exact].view("u4"))


def test_the_file_without_padding_holds_the_same_tensors() -> None:
    numbers = [f.number for f in wire.fields((FOLDER / "unpadded.pb").read_bytes(), FOLDER)]
    assert wire.PADDING not in numbers
    padded, unpadded = read(FOLDER / "dtypes.pb"), read(FOLDER / "unpadded.pb")
    assert [t.info for t in padded] == [t.info for t in unpadded]
    assert [t.array.tobytes() for t in padded] == [t.array.tobytes() for t in unpadded]
