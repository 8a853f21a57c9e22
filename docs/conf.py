"""Sphinx: README is the front page, and links between documents are those that a clone has. `make docs` builds it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

project = "qwen3-parity"
extensions = ["myst_parser"]
root_doc = "README"
include_patterns = ["*.md", "docs/*.md", "golden/*.md", "examples/engines/*.md", "ports/*/*.md", "skills/*/*.md"]
myst_heading_anchors = 4
html_theme = "alabaster"
html_theme_options = {"page_width": "1100px", "description": "Is your Qwen3 the same network as Hugging Face's?"}

CONTENTS = """
```{toctree}
:hidden:
:glob:

docs/*
golden/*
examples/engines/*
ports/*/*
skills/*/*
CONTRIBUTING
CHANGELOG
SECURITY
```
"""


def for_the_site(app: Any, name: str, text: list[str]) -> None:
    """Adds the table of contents to README, which a clone does not show; a site has no folders to link to."""
    folder = (Path(app.srcdir) / name).parent
    text[0] = re.sub(
        r"\[([^\]]+)\]\(([^)#:]+)\)", lambda link: link[1] if (folder / link[2]).is_dir() else link[0], text[0]
    )
    if name == root_doc:
        text[0] += CONTENTS


def setup(app: Any) -> None:
    app.connect("source-read", for_the_site)
