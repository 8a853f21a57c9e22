"""What the documents point at is there."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from qwen3_parity.folder.levels import LEVELS, cases_of
from qwen3_parity.judge.golden_path import case_names

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = sorted(
    path
    for glob in ("*.md", "docs/*.md", "golden/*.md", "examples/**/*.md", "ports/*/*.md", "skills/*/*.md", "llms.txt")
    for path in ROOT.glob(glob)
)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
MODULE = re.compile(r"`((?:golden|reference|impl|tools|tests|docs|examples)/[\w./-]+\.(?:py|md|textproto|txt|proto))`")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_document_names_files_that_exist(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    broken = [target for target in LINK.findall(text) if not (document.parent / target).exists()]
    broken += [target for target in MODULE.findall(text) if not (ROOT / target).exists()]
    assert not broken


def test_the_way_in_fits_on_a_screen() -> None:
    assert len((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").splitlines()) <= 80


def test_the_front_page_is_short() -> None:
    assert (ROOT / "README.md").stat().st_size <= 8000


def test_a_skill_is_called_as_its_folder_fits_in_eight_kilobytes_and_knows_every_key_of_next() -> None:
    (skill,) = (ROOT / "skills").glob("*/SKILL.md")
    text = skill.read_text(encoding="utf-8")
    assert len(text.encode()) <= 8000
    empty, front, body = text.split("---\n", 2)
    said = yaml.safe_load(front)
    assert not empty and said.keys() == {"name", "description"} and said["name"] == skill.parent.name
    assert 50 < len(said["description"]) <= 1024
    schema = json.loads((ROOT / "tools/qwen3_parity/report/schema.json").read_text(encoding="utf-8"))["$defs"]["next"]
    assert set(re.findall(r"^\| `(\w+)` \|", body, re.MULTILINE)) == schema["properties"].keys()
    assert all(f"`{word}`" in body for word in schema["properties"]["do"]["enum"])


def test_the_page_for_language_models_names_every_page() -> None:
    text = (ROOT / "llms.txt").read_text(encoding="utf-8")
    assert text.startswith("# qwen3-parity\n\n> ")
    named = {(ROOT / link).resolve() for link in LINK.findall(text)}
    assert {*(ROOT / "docs").glob("*.md"), *(ROOT / "skills").glob("*/*.md"), ROOT / "golden" / "README.md"} <= named


def test_the_page_of_bugs_is_made_from_the_table_of_bugs() -> None:
    spec = importlib.util.spec_from_file_location("write_bugs", ROOT / "docs" / "write_bugs.py")
    assert spec is not None and spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert (ROOT / "docs" / "bugs.md").read_bytes() == script.page().encode()


def test_a_site_is_built_of_the_documents_without_a_warning(tmp_path: Path) -> None:
    for package in ("sphinx", "myst_parser"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed: it is in the extra dev")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-c", "docs", "-d", tmp_path / "trees"]
    built = subprocess.run([*command, ".", tmp_path / "site"], cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    assert (tmp_path / "site" / "docs" / "bugs.html").is_file()


def test_the_hooks_before_a_commit_fetch_nothing_and_run_pinned_versions() -> None:
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    assert local["repo"] == "local" and {hook["language"] for hook in local["hooks"]} == {"system"}
    pinned = {
        tool.partition("==")[0] for tool in re.findall(r'"([\w-]+==[^"]+)"', (ROOT / "pyproject.toml").read_text())
    }
    assert {hook["entry"].split()[0] for hook in local["hooks"]} <= pinned


def test_every_figure_has_its_command_and_the_commit_at_which_it_was_measured() -> None:
    table = (ROOT / "docs" / "figures.md").read_text(encoding="utf-8").partition("| what |")[2].partition("\n\n")[0]
    rows = [line.strip("| ").split(" | ") for line in table.splitlines()[2:]]
    assert len(rows) > 15
    assert not [row for row in rows if len(row) != 4 or "`" not in row[2] or not re.fullmatch("[0-9a-f]{7}", row[3])]


def anchors(document: Path) -> set[str]:
    """GitHub's anchors of a document's headings."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_to_headings_find_them(document: Path) -> None:
    links = re.findall(r"\]\(([^)#:]*)#([^)]+)\)", document.read_text(encoding="utf-8"))
    assert not [
        (file, anchor) for file, anchor in links if anchor not in anchors(document.parent / file if file else document)
    ]


def test_some_links_are_read() -> None:
    assert len(LINK.findall((ROOT / "README.md").read_text(encoding="utf-8"))) > 10


def test_every_page_links_to_the_glossary_which_has_eight_words() -> None:
    glossary = ROOT / "docs" / "glossary.md"
    pages = [ROOT / "README.md", ROOT / "golden" / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    assert not [
        str(page) for page in pages if page != glossary and "glossary.md" not in page.read_text(encoding="utf-8")
    ]
    assert len(re.findall(r"^\| \*\*\w+\*\* \|", glossary.read_text(encoding="utf-8"), re.MULTILINE)) == 8


def test_every_level_stands_with_the_number_of_its_cases_on_the_page_that_chooses_among_them() -> None:
    page = (ROOT / "docs" / "which-cases.md").read_text(encoding="utf-8")
    counted = {level: int(number) for level, number in re.findall(r"`([\w-]+)` \((\d+)\)", page)}
    assert counted == {level: len(cases_of([level], case_names())) for level in LEVELS}
