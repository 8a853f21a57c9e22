"""The case of damaged files: each is refused for the rule that it was made for, and the README lists them all."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import pytest

from qwen3_golden import GOLDEN_ROOT, ParityError, damaged, pb, read

FILES = {one.name: one for one in damaged.files()}
REFUSALS = {
    "empty": "not a golden file",
    "text": "not a golden file",
    "cut_in_a_payload": "a field is longer than the file|cut off",
    "cut_before_end": "0 × end",
    "cut_in_end": "a field is longer than the file|cut off",
    "twice_in_one": "2 × header",
    "behind_end": "something after end",
    "header_behind_payloads": "not a golden file",
    "another_magic": "not a golden file",
    "another_major": "this schema version is not ours",
    "no_provenance": "0 × provenance",
    "no_case": "0 × case",
    "no_run": "0 × run",
    "two_runs": "2 × run",
    "payload_behind_metadata": "a payload after metadata",
    "bare_number": "length-delimited|a field that",
    "a_payload_less": "2 payloads of 27 bytes",
    "a_tensor_less": "2 tensors",
    "end_counts_more": "4 tensors",
    "end_sums_less": "of 26 bytes",
    "metadata_changed": "the metadata was changed",
    "payload_changed": r"plumbing.numbers \(step 0\) is not what was written",
    "digest_cut": "its digest is no SHA-256",
    "bytes_of_more": "28 in the metadata",
    "shape_of_less": "16 bytes for 2x2 F32",
    "shape_beyond_64_bits": "its size disagrees with its shape",
    "negative_dimensions": "its size disagrees with its shape",
    "axes_of_more": "its axes disagree with its shape",
    "dtype_unset": "dtype of plumbing.numbers .* unset",
    "dtype_unknown": "dtype of plumbing.numbers .* does not have",
    "mode_unset": "mode of the case .* unset",
    "mode_unknown": "mode of the case .* does not have",
    "backend_unknown": "backend of the run .* does not have",
    "name_twice": r"plumbing.numbers \(step 0\) stands there twice",
    "bool_of_2": "a bool is neither 0 nor 1",
}


def put(name: str, folder: Path) -> Path:
    path = folder / "file.pb"
    path.write_bytes(FILES[name].content)
    return path


def test_a_dozen_and_more_files_are_to_be_refused() -> None:
    assert set(REFUSALS) == {name for name, file in FILES.items() if file.refused} and len(REFUSALS) > 12


@pytest.mark.parametrize("name", REFUSALS)
def test_a_damaged_file_is_refused_for_its_own_rule(name: str, tmp_path: Path) -> None:
    with pytest.raises(ParityError, match=f"(?s){REFUSALS[name]}"):
        read(put(name, tmp_path), digests=True)


@pytest.mark.parametrize("name", [name for name, file in FILES.items() if not file.refused])
def test_a_file_that_only_looks_damaged_is_read(name: str, tmp_path: Path) -> None:
    path = put(name, tmp_path)
    if name == "newer_minor":
        with pytest.warns(UserWarning, match="newer than ours"):
            read(path, digests=True)
    else:
        read(path, digests=True)
    assert not damaged.refuses(path.read_bytes())


def test_the_case_gives_each_file_and_asks_whether_it_is_refused() -> None:
    golden = read(GOLDEN_ROOT / "cases" / "plumbing" / "damaged.pb", digests=True)
    assert (golden.case.mode, golden.case.op) == (pb.OP, "read")
    stored = {
        name: (golden[f"input.{name}", 0].array.tobytes(), bool(golden[f"output.{name}", 0].array)) for name in FILES
    }
    assert stored == {name: (file.content, file.refused) for name, file in FILES.items()}
    assert len(golden.tensors) == 2 * len(FILES)


def test_the_readme_lists_each_file_with_its_rule() -> None:
    section = (GOLDEN_ROOT / "README.md").read_text(encoding="utf-8").partition("### Files to be refused")[2]
    rows = re.findall(r"^\| `([a-z0-9_]+)` \| (true|false) \| (.+) \|$", section, re.M)
    assert rows == [(one.name, str(one.refused).lower(), one.rule) for one in damaged.files()]


def test_a_stock_parser_takes_most_of_them() -> None:
    taken = []
    for name in REFUSALS:
        try:
            pb.Recording.FromString(FILES[name].content)
            taken.append(name)
        except Exception:
            continue
    text = (GOLDEN_ROOT / "README.md").read_text(encoding="utf-8")
    assert f"A stock parser alone takes {len(taken)} of the {len(REFUSALS)} that are to be refused" in text


def test_a_refusal_leaves_no_notice_behind() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not damaged.refuses(FILES["newer_minor"].content)
