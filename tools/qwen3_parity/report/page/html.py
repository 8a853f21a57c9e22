"""The page itself: one file with its style, its script, its data and the plotting library."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from qwen3_parity.judge.budgets import percent
from qwen3_parity.report.page.contents import Report, contents
from qwen3_parity.report.page.plots import PLOTS, drawing_code, specification

_HERE = Path(__file__).parent
_SCRIPTS = ("page.js", "map.js", "texts.js", "taps.js", "plots.js", "start.js")

_NAMED = 3
"""Models that the page's head names."""
_UNITS = {"taps": "taps", "texts": "stages of texts"}


def html(report: Report) -> str:
    """One page that asks nothing from anywhere; what recordings hold is escaped, and no script of theirs runs."""
    shown = contents(report)
    shown["plots"] = {name: specification(name) for name in PLOTS}
    return _page(shown, inline(drawing_code()))


def _page(shown: dict[str, Any], library: str) -> str:
    environment = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    script = "(() => {\n" + "".join((_HERE / name).read_text(encoding="utf-8") for name in _SCRIPTS) + "})();"
    cases = shown["cases"]
    days = sorted({case["date"] for case in cases} - {""})
    return environment.get_template("page.html.jinja").render(
        {
            name: shown[name]
            for name in ("sentence", "good", "compared", "of", "mistakes", "refused", "missing", "required")
        },
        cases=cases,
        history=shown["history"],
        not_proven=shown["not_proven"],
        single=cases[0] if len(cases) == 1 else None,
        models=_few([case["model"] for case in cases]),
        file_days=" to ".join(dict.fromkeys([*days[:1], *days[-1:]])),
        red=sum(not case["good"] for case in cases),
        unit=" and ".join(dict.fromkeys(_UNITS[case["kind"]] for case in cases)) or "taps",
        worst=_worst,
        share=_share,
        permalink=permalink,
        style=(_HERE / "page.css").read_text(encoding="utf-8"),
        library=library,
        script=inline(script),
        data=embedded(shown),
        hashes=" ".join(map(_hash, (library, inline(script)))),
    )


def permalink(case: str, tap: str = "", step: int = 0) -> str:
    """The part of an address behind its # that opens a case, or a tap of it."""
    return urlencode({"case": case} | ({"tap": tap, "step": step} if tap else {}))


def embedded(value: Any) -> str:
    """JSON that may stand within a script element: nothing in it ends the element or begins another."""
    text = json.dumps(value, separators=(",", ":"), allow_nan=False, ensure_ascii=True)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def inline(code: str) -> str:
    """Our own script as it may stand within a script element."""
    return code.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _hash(code: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()}'"


def _few(words: Iterable[str]) -> str:
    """Words each once, the first ones and how many more there are."""
    words = list(dict.fromkeys(filter(None, words)))
    more = f" and {len(words) - _NAMED} more" if len(words) > _NAMED else ""
    return ", ".join(words[:_NAMED]) + more


def _worst(case: dict[str, Any]) -> str:
    if case["identical"]:
        return "all equal" if case["kind"] == "texts" else "bit for bit"
    return "" if case["worst"] is None else _share(case["worst"])


def _share(value: float | str | None) -> str:
    return "" if value is None else percent(float(value))
