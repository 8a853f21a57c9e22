"""The line that matters in what a program said before it ended, in whatever language it is written."""

from __future__ import annotations

import re

_TRACEBACK = "Traceback (most recent call last):"
_TELLS = re.compile(
    r"panicked at |\bpanic: |^fatal error: |\berror: |terminate called |Assertion .* failed"  # Rust, Go, C and C++
    r"|^Exception in thread |^Caused by: |^Unhandled exception|\w(Error|Exception)\b.*: |^(Error|Exception): ",
    re.IGNORECASE,
)
"""How a crash is told; lines of a stack are indented, and its first cause comes last."""
_GOES_ON = re.compile(r"\s+what\(\):")


def telling(text: str) -> str:
    """The line of `text` that says why a program ended, with the one that it is continued in; empty for none."""
    lines = text.splitlines()
    tracebacks = [index for index, line in enumerate(lines) if line == _TRACEBACK]
    if tracebacks:  # of Python: an exception may have any name, and stands behind the indented lines
        behind = range(tracebacks[-1] + 1, len(lines))
        matching = [index for index in behind if lines[index].strip() and not lines[index][0].isspace()][:1]
    else:
        matching = [index for index, line in enumerate(lines) if not line[:1].isspace() and _TELLS.search(line)][-1:]
    for index in matching:
        following = lines[index + 1] if index + 1 < len(lines) else ""
        goes_on = lines[index].endswith(":") or _GOES_ON.match(following)
        return f"{lines[index]} {following.strip()}".strip() if goes_on else lines[index].strip()
    return ""
