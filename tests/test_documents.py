"""What the documents point at is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("golden/*.md"), *ROOT.glob("examples/*.md")]
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


def test_some_links_are_read() -> None:
    assert len(LINK.findall((ROOT / "README.md").read_text(encoding="utf-8"))) > 10
