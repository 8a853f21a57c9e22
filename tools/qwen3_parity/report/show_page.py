"""The pages that messages name, those of docs and of golden: a wheel has them beside the tables, as a checkout does.

Beside golden/README.md that is what a port is written by: the schema, and the tables of taps.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches

from qwen3_golden import TABLES_ROOT, ParityError

_FOLDERS = {"docs": TABLES_ROOT.parent / "docs", "golden": TABLES_ROOT}
_PAGE = re.compile(r"docs/[\w-]+\.md|golden/[\w-]+\.(?:md|proto|textproto)")
_ENDINGS = {"docs": ("*.md",), "golden": ("*.md", "*.proto", "*.textproto")}


def is_page(name: str) -> bool:
    """Whether a word is the name of a page, there or not."""
    return _PAGE.fullmatch(name) is not None


def page_names() -> Sequence[str]:
    """Every page that is there, sorted."""
    return sorted(
        f"{folder}/{path.name}"
        for folder, place in _FOLDERS.items()
        for ending in _ENDINGS[folder]
        for path in place.glob(ending)
    )


def page_text(name: str) -> str:
    """A page as it is written; raises `ParityError` where there is none of this name."""
    if name not in page_names():
        near = get_close_matches(name, page_names(), n=3, cutoff=0.6) or page_names()
        raise ParityError(
            name,
            "there is no page of this name",
            expected=f"one of {', '.join(near)}",
            got=name,
            next_step="qwen3-parity show docs/glossary.md",
        )
    folder, _, file = name.partition("/")
    return (_FOLDERS[folder] / file).read_text(encoding="utf-8")
