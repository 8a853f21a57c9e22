"""`python docs/write_bugs.py` writes docs/bugs.md from golden/bugs.textproto."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path

from qwen3_golden import bugs

PAGE = Path(__file__).with_name("bugs.md")
HEAD = """\
# Known bugs

What goes wrong in ports of such networks, by the ids that cases and tests name. Made from
[bugs.textproto](../golden/bugs.textproto) by `python docs/write_bugs.py`; `qwen3-parity show MSK-21` prints one.
Under "shows" is what a test must have for the difference to show; "reported" has public issues, or "port" for a
port of which nothing was published. Words: [glossary](glossary.md).
"""


def page() -> str:
    """The whole page, a table for each group of ids."""
    text = HEAD
    for group, rows in groupby(bugs(), key=lambda bug: bug.id[:3]):
        text += f"\n## {group}\n\n| id | wrong | right | shows | reported |\n|---|---|---|---|---|\n"
        for row in rows:
            cells = (row.id, row.wrong, row.right, row.visible_when, ", ".join(row.reported))
            text += "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"
    return text


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
