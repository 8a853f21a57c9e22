"""A card says what a folder reached, and is computed again: whatever it says otherwise is told.

It runs `report.card` and `commands._cards`, too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from qwen3_golden import GOLDEN_ROOT, Recording, Tensor, read, write
from qwen3_parity.cli import main
from qwen3_parity.folder.card import differences

CASES = GOLDEN_ROOT / "cases"
PLUMBING = sorted((CASES / "plumbing").glob("*.pb"))
Card = dict[str, Any]
CARD = ("--format", "card", "--date", "2026-11-24")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(one) for one in arguments])


def louder(path: Path, by: float) -> None:
    """A recording with another number in its last tap."""
    golden = read(path)
    *others, last = list(golden)
    array = last.array.copy()
    array.reshape(-1)[0] *= by
    write(path, Recording(golden.case, golden.provenance, golden.run, [*others, Tensor(last.info, array)]))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The level reader, one case of the level encoder, and one that is red."""
    out = tmp_path / "port"
    out.mkdir()
    for path in (*PLUMBING, CASES / "encoder" / "one_token.pb", CASES / "op" / "swiglu.pb"):
        (out / f"{path.parent.name}_{path.name}").write_bytes(path.read_bytes())
    louder(out / "op_swiglu.pb", 2)
    return out


@pytest.fixture
def path(folder: Path, tmp_path: Path) -> Path:
    """The card of the folder."""
    done = run("report", folder, *CARD, "--label", "my_port 1.2", "--out", tmp_path / "card")
    assert done.exit_code == 0, done.output
    return tmp_path / "card.json"


def test_a_card_has_the_levels_with_their_cases(path: Path) -> None:
    levels = json.loads(path.read_text())["levels"]
    found = {name: (one["reached"], one["parity"], one["red"]) for name, one in levels.items()}
    assert found == {"reader": (True, 5, []), "ops": (False, 0, ["op/swiglu"]), "encoder": (False, 1, [])}


def test_a_card_has_each_case_with_its_recordings_digest_and_its_worst_share(path: Path, folder: Path) -> None:
    cases = json.loads(path.read_text())["cases"]
    assert len(cases) == 7
    one = cases["op/swiglu"]
    assert (one["verdict"], one["where"]) == ("divergence", "output.act (step 0)") and one["worst_share"] > 1
    assert one["recording"] == read(folder / "op_swiglu.pb").digest.hex()


def test_a_card_has_the_contracts_digest_and_the_versions(path: Path) -> None:
    card = json.loads(path.read_text())
    manifest = (GOLDEN_ROOT / "MANIFEST.textproto").read_bytes()
    assert card["contract"] == {"digest": hashlib.sha256(manifest).hexdigest(), "edited": [], "own_goldens": []}
    assert card["judge"].keys() == {"qwen3-parity", "schema"}
    assert any("numpy" in one["versions"] for one in card["producers"])


def test_a_card_has_the_date_that_was_given(path: Path) -> None:
    assert json.loads(path.read_text())["date"] == "2026-11-24"


def test_a_card_for_people_says_the_same(path: Path) -> None:
    page = path.with_suffix(".md").read_text()
    assert page.startswith("# Card of `my_port 1.2`\n\n2026-11-24. Levels reached: reader.\n")
    assert "| ops | no | 0 of " in page and "| encoder/one_token | parity | run and ops |" in page


LEVELS = "1.2\n\n2026-11-24. Levels reached: ops, causal."
FORGED = (
    "a|b",
    "[c](d)",
    "<b>",
    "# a",
    "a `b`",
    "a\tb",
    "a\x1b[1m",
    LEVELS,
    "",
    " a",
    "a" * 81,
    "\u202eport",
    "*a*",
    "a\r",
)
"""What is no name: Markdown, what a terminal obeys, more than a line, nothing."""


@pytest.mark.sample(every=5)
@pytest.mark.parametrize("name", FORGED)
def test_a_name_that_could_be_read_as_something_else_is_refused(
    name: str, folder: Path, path: Path, tmp_path: Path
) -> None:
    if name:
        done = run("report", folder, *CARD, f"--label={name}", "--out", tmp_path / "x")
        assert done.exit_code == 2 and "a card's name is a name" in done.output and not (tmp_path / "x.md").exists()
    path.write_text(json.dumps(json.loads(path.read_text()) | {"name": name}))
    done = run("check", folder, "--card", path)
    assert done.exit_code == 2 and "this is no card" in done.output


@pytest.mark.parametrize("date", ["2026-02-30", "20260131", "2026-W05-6", "soon", LEVELS, "2026-11-24 ", ""])
def test_a_card_whose_date_cannot_be_is_refused(date: str, folder: Path, path: Path) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | {"date": date}))
    done = run("check", folder, "--card", path)
    assert done.exit_code == 2 and "this is no card" in done.output


def test_a_card_with_a_key_twice_is_refused(folder: Path, path: Path) -> None:
    text = path.read_text()
    path.write_text(text.replace('"levels": {', '"levels": {"ops": {"reached": true}},\n "levels": {', 1))
    done = run("check", folder, "--card", path)
    assert done.exit_code == 2 and "a key twice" in done.output


def test_what_a_recording_says_of_its_maker_forges_nothing(folder: Path, tmp_path: Path) -> None:
    golden = read(CASES / "encoder" / "one_token.pb")
    golden.provenance.producer = (
        "port`\n\n| ops | yes |\n\n# Levels :white_check_mark: reached `all` | *x* <b>\x1b\u2028"
    )
    write(folder / "encoder_one_token.pb", golden)
    run("report", folder, *CARD, "--label", "port", "--out", tmp_path / "x")
    page = (tmp_path / "x.md").read_text()
    (line,) = (line for line in page.splitlines() if "white_check_mark" in line)
    assert line.startswith("Recorded by `port\\x60  \\x7c ops \\x7c yes \\x7c") and line.count("`") % 2 == 0
    outside = "".join(line.split("`")[::2])
    assert "Levels" not in outside and "|" not in line and "\x1b" not in page and "\u2028" not in page


def test_a_card_without_a_date_is_refused(folder: Path) -> None:
    done = run("report", folder, "--format", "card")
    assert done.exit_code == 2 and "--date" in done.output


def test_a_card_of_a_folder_that_reaches_nothing_exits_with_1(tmp_path: Path) -> None:
    (tmp_path / "a.pb").write_bytes((CASES / "op" / "swiglu.pb").read_bytes())
    done = run("report", tmp_path, *CARD)
    assert done.exit_code == 1 and "Levels reached: none." in (tmp_path / "card.md").read_text()


def test_a_card_of_a_folder_with_a_recording_that_is_refused_is_not_written(folder: Path) -> None:
    (folder / "x.pb").write_bytes(b"no recording")
    done = run("report", folder, *CARD)
    assert done.exit_code == 2 and not list(folder.glob("card*"))


def test_a_card_of_an_empty_folder_is_refused(tmp_path: Path) -> None:
    assert run("report", tmp_path, *CARD).exit_code == 2


def test_a_card_is_verified_by_computing_it_again(path: Path, folder: Path) -> None:
    done = run("check", folder, "--card", path)
    assert done.exit_code == 0 and "everything that it says was computed again" in done.stdout


def claimed(card: Card) -> None:
    card["levels"]["ops"]["reached"] = True


def smaller(card: Card) -> None:
    card["cases"]["encoder/one_token"]["worst_share"] = 0.5


def older(card: Card) -> None:
    card["contract"]["digest"] = "0" * 64


def more(card: Card) -> None:
    card["cases"]["op/linear"] = card["cases"]["op/swiglu"]


def less(card: Card) -> None:
    del card["levels"]["encoder"]["missing"]


EDITS: dict[Callable[[Card], None], str] = {
    claimed: "levels.ops.reached: the card says True, it is False",
    smaller: "cases.encoder/one_token.worst_share: the card says 0.5",
    older: "contract.digest: the card says '0000",
    more: "cases.op/linear: only in the card",
    less: "levels.encoder.missing: not in the card",
}


@pytest.mark.sample(every=3)
@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.__name__)
def test_what_an_edited_card_says_otherwise_is_told(edit: Callable[[Card], None], path: Path, folder: Path) -> None:
    card = json.loads(path.read_text())
    edit(card)
    path.write_text(json.dumps(card))
    done = run("check", folder, "--card", path)
    assert done.exit_code == 1 and EDITS[edit] in done.stdout
    assert len(done.stdout.splitlines()) == 1


def test_a_page_that_was_edited_is_told(path: Path, folder: Path) -> None:
    page = path.with_suffix(".md")
    page.write_text(page.read_text().replace("| ops | no |", "| ops | yes |"))
    done = run("check", folder, "--card", path)
    assert done.exit_code == 1 and "not the text of card.json" in done.stdout


def test_another_recording_is_told(path: Path, folder: Path) -> None:
    louder(folder / "op_swiglu.pb", 2)
    assert "cases.op/swiglu.recording: the card says " in run("check", folder, "--card", path).stdout


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"format": 1}', '{"format": 2}', "[" * 100000, "\x00", "9" * 5000]
)
def test_a_file_that_is_no_card_is_refused(content: str, folder: Path, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text(content)
    done = run("check", folder, "--card", tmp_path / "x.json")
    assert done.exit_code == 2 and "this is no card" in done.output and "Traceback" not in done.output


def test_shares_of_other_libraries_differ_in_their_last_digits() -> None:
    assert not list(differences({"share": 0.3691}, {"share": 0.3690}))
    assert list(differences({"share": 0.37}, {"share": 0.30}))
