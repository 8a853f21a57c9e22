"""Each flag of an added token shows in a golden of its own: a tokenizer that ignores one is caught there alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from qwen3_golden import GOLDEN_ROOT, ParityError, read
from qwen3_parity import check
from qwen3_parity.recording.text import record_tokenization
from qwen3_parity.text.ours import ours
from qwen3_reference.vocabulary.added_tokens import ADDED, FLAGS, OVERLAPS, write_added

TOKENIZERS, CASES = GOLDEN_ROOT / "tokenizers", GOLDEN_ROOT / "cases" / "tokenization"


def exit_code(case: str, tmp_path: Path, flag: str = "") -> int:
    """The verdict on our tokenizer when `flag` is set for no added token."""
    golden = read(CASES / f"{case}.pb")
    directory = tmp_path / "tokenizer"
    shutil.copytree(TOKENIZERS / golden.case.checkpoint[0].name, directory)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        content = json.loads((directory / name).read_text("utf-8"))
        added = content.get("added_tokens") or list(content.get("added_tokens_decoder", {}).values())
        for entry in added:
            entry.update({flag: False} if flag else {})
        (directory / name).write_text(json.dumps(content), encoding="utf-8")
    record_tokenization(golden, tmp_path / "ours.pb", lambda case, _: ours(case, directory))
    return check(golden, read(tmp_path / "ours.pb")).exit_code


@pytest.mark.parametrize("flag", ["lstrip", "normalized", "rstrip", "single_word"])
def test_a_flag_that_is_ignored_shows_in_the_golden_of_added_tokens_alone(flag: str, tmp_path: Path) -> None:
    assert exit_code("special_tokens", tmp_path / "other", flag) == 0
    assert exit_code("added_tokens", tmp_path / "added", flag) == 1


def test_with_its_flags_our_tokenizer_is_at_parity(tmp_path: Path) -> None:
    assert exit_code("added_tokens", tmp_path) == 0


def test_every_flag_is_set_for_a_token_that_is_not_ascii_and_not_for_another() -> None:
    for flag in FLAGS:
        assert {flag in flags for flags in ADDED.values()} == {True, False}
    assert not any(content.isascii() for content in ADDED)


@pytest.mark.parametrize(("name", "added"), [("tiny-added", ADDED), ("tiny-overlaps", OVERLAPS)])
def test_the_committed_tokenizer_is_what_is_written_and_is_never_written_again(
    name: str, added: dict[str, tuple[str, ...]], tmp_path: Path
) -> None:
    write_added(TOKENIZERS / "tiny", tmp_path / "again", added)
    for path in (TOKENIZERS / name).iterdir():
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes()
    with pytest.raises(ParityError, match="committed tokenizer"):
        write_added(TOKENIZERS / "tiny", tmp_path / "again")
