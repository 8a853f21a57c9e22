"""A verdict names the contract that it was judged by, and nothing is called parity by one that is not the released."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from click.testing import CliRunner
from rich.console import Console

from qwen3_golden import GOLDEN_ROOT, Tensor, pb, read, write
from qwen3_golden import manifest as manifests
from qwen3_golden.contract import Contract, contract_of
from qwen3_parity import check
from qwen3_parity.cli import main
from qwen3_parity.report import verdicts as report
from qwen3_parity.report.page.contents import Report
from qwen3_parity.report.page.html import html

GOLDEN = GOLDEN_ROOT / "cases" / "op" / "rope.pb"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A golden set of the released tables and manifest, without its cases' files."""
    for name in (manifests.NAME, "taps.textproto", "tolerances.textproto"):
        shutil.copy(GOLDEN_ROOT / name, tmp_path / name)
    return tmp_path


def edited_golden(path: Path) -> Path:
    """A committed golden with floors so wide that everything passes, written as any tool would."""
    golden = read(GOLDEN)
    tensors = []
    for item in golden:
        info = pb.Tensor.FromString(item.info.SerializeToString())
        if info.HasField("floor"):
            info.floor.CopyFrom(pb.Floor(rms=1e30, max=1e30, row=1e30, head=1e30))
        tensors.append(Tensor(info, item.array))
    write(path, replace(golden, tensors=tensors))
    return path


def test_the_committed_set_is_the_released_one() -> None:
    assert contract_of(read(GOLDEN)).edited == ()


def test_a_verdict_by_the_released_set_names_its_digest() -> None:
    verdicts = check(GOLDEN, GOLDEN)
    assert verdicts.contract is not None and verdicts.word == "parity"
    assert verdicts.to_json()["contract"] == {
        "digest": manifests.RELEASED.read_text().strip(),
        "edited": (),
        "own_golden": "",
    }


def test_nothing_is_parity_by_an_edited_golden_and_the_verdict_says_so(tmp_path: Path) -> None:
    path = edited_golden(tmp_path / "rope.pb")
    done = CliRunner().invoke(main, ["check", str(path), str(GOLDEN), "--json"])
    document = json.loads(done.output)
    assert (done.exit_code, document["verdict"]) == (1, "within budget, no parity")
    assert document["contract"]["edited"] == ["cases/op/rope.pb"]
    assert document["contract"]["digest"] != manifests.RELEASED.read_text().strip()


def test_diagnose_names_the_contract_too(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["diagnose", str(edited_golden(tmp_path / "rope.pb")), str(GOLDEN)])
    assert done.exit_code == 1
    assert "cases/op/rope.pb is not the released one" in " ".join(done.output.split())


def test_two_different_edits_have_two_digests(root: Path) -> None:
    released = contract_of(read(GOLDEN), root)
    table = root / "tolerances.textproto"
    digests = {released.digest}
    for index, line in enumerate(("# wider\n", "# wider still\n")):
        folder = root / f"set {index}"
        folder.mkdir()
        for name in (manifests.NAME, "taps.textproto"):
            shutil.copy(root / name, folder / name)
        (folder / table.name).write_text(table.read_text() + line)
        contract = contract_of(read(GOLDEN), folder)
        assert contract.edited == ("tolerances.textproto",)
        digests.add(contract.digest)
    assert len(digests) == 3


def test_a_manifest_that_was_written_to_fit_an_edit_is_not_the_released_one(root: Path) -> None:
    table = root / "tolerances.textproto"
    table.write_text(table.read_text().replace("max: ", "max: 1000000", 1))
    manifest = manifests.load(root)
    for entry in manifest.entry:
        if entry.path == table.name:
            entry.CopyFrom(pb.Entry(path=entry.path, bytes=table.stat().st_size, sha256=_sha256(table)))
    (root / manifests.NAME).write_text(manifests.render(manifest))
    assert contract_of(read(GOLDEN), root).edited == (manifests.NAME,)


def _sha256(path: Path) -> str:
    import hashlib

    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_users_own_golden_is_nobodys_edit_and_not_called_released(tmp_path: Path) -> None:
    golden = read(GOLDEN)
    golden.case.name = "capture/request"
    assert contract_of(golden).edited == ()
    write(tmp_path / "own.pb", golden)
    done = CliRunner().invoke(main, ["check", str(tmp_path / "own.pb"), str(tmp_path / "own.pb")])
    words = " ".join(done.output.split())
    assert done.exit_code == 0 and "judged by a golden of your own, 'capture/request', by the budgets as" in words
    assert ", as released" not in words and "none of the release" not in words


def test_a_golden_that_is_no_file_is_not_called_released() -> None:
    golden = read(GOLDEN)
    assert contract_of(golden).released
    assert not contract_of(replace(golden, digest=b"")).released


def in_another_set(folder: Path, *words: str) -> str:
    """What the command says where QWEN3_PARITY_GOLDENS names a set of one case, whose tables are other ones."""
    goldens = folder / "goldens"
    (goldens / "cases" / "plumbing").mkdir(parents=True, exist_ok=True)
    shutil.copy(GOLDEN_ROOT / "cases" / "plumbing" / "dtypes.pb", goldens / "cases" / "plumbing")
    for name in (manifests.NAME, "taps.textproto", "tolerances.textproto"):
        shutil.copy(GOLDEN_ROOT / name, goldens / name)
    (goldens / "tolerances.textproto").write_text("")
    done = subprocess.run(
        [sys.executable, "-m", "qwen3_parity", *words],
        env=os.environ | {"QWEN3_PARITY_GOLDENS": str(goldens), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    return f"{done.stdout}{done.stderr}exit code {done.returncode}"


def test_fewer_goldens_make_no_level_smaller(tmp_path: Path) -> None:
    port = tmp_path / "port"
    port.mkdir()
    shutil.copy(GOLDEN_ROOT / "cases" / "plumbing" / "dtypes.pb", port)
    said = in_another_set(tmp_path, "check", str(port))
    assert "level reader, 1 of 5 cases: missing plumbing/damaged" in said and "levels reached" not in said
    said = in_another_set(tmp_path, "check", str(port), "--level", "reader")
    assert "required and not delivered, 4: plumbing/damaged" in said and said.endswith("exit code 1")
    said = in_another_set(tmp_path, "report", str(port), "--format", "card", "--date", "2026-01-31")
    assert "port: levels reached: none" in said and said.endswith("exit code 1")
    said = in_another_set(tmp_path, "conformance", "--level", "reader", "--", "no-port")
    lacks = "no plumbing/damaged, plumbing/shapes, plumbing/specials, plumbing/unpadded"
    assert lacks in said and said.endswith("exit code 2")


def test_the_contract_is_that_of_the_folder_which_budgets_are_read_from(tmp_path: Path) -> None:
    golden = GOLDEN_ROOT / "cases" / "plumbing" / "dtypes.pb"
    said = in_another_set(tmp_path, "check", str(golden), str(golden))  # the tables beside the goldens are nobody's
    assert f"contract {contract_of(read(GOLDEN)).short}, as released" in said and said.endswith("exit code 0")


def test_the_contract_stands_in_the_terminal_and_on_the_page() -> None:
    verdicts = check(GOLDEN, GOLDEN)
    assert verdicts.contract is not None
    released = f"contract {verdicts.contract.short}, as released"
    edited = replace(verdicts, contract=Contract("ab" * 32, ("tolerances.textproto",)))
    for shown, words in ((verdicts, released), (edited, "tolerances.textproto is not the released one")):
        for renderable in (report.terminal(shown), report.overview([shown])):
            console = Console(width=200, file=StringIO())
            console.print(renderable)
            assert words in console.file.getvalue()  # type: ignore[attr-defined]
        assert words in html(Report([shown]))


def test_partial_by_an_edited_contract_has_no_exit_code_0() -> None:
    verdicts = check(GOLDEN, GOLDEN, partial=True)
    assert replace(verdicts, contract=Contract("ab" * 32, ("tolerances.textproto",))).exit_code == 1
