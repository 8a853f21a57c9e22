"""The plots of the page as Vega-Lite specifications, without their data, and the JavaScript that draws them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

_VEGA = Path(__file__).parent / "vega"
_SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
"""A name, and no address that anything asks."""

_BEYOND = {"mark": {"type": "rule", "strokeDash": [5, 4]}, "encoding": {"y": {"datum": 1}, "color": {"value": "bad"}}}


def _log(field: str, title: str, **more: Any) -> dict[str, Any]:
    axis = {"format": ".0e", "tickCount": 6}
    return {"field": field, "type": "quantitative", "scale": {"type": "log"}, "title": title, "axis": axis} | more


def _field(field: str, title: str, kind: str = "quantitative", **more: Any) -> dict[str, Any]:
    return {"field": field, "type": kind, "title": title} | more


def _against_floor(across: str, title: str, by: dict[str, Any]) -> dict[str, Any]:
    """A tap's RMS error along `across`, its floor and its budget as a band; `by` tells the lines apart."""
    x = _field(across, title, "ordinal", axis={"labelAngle": 0, "labelOverlap": True, "grid": False})
    band = {"y": _log("floor", "RMS error", aggregate="max"), "y2": {"field": "budget", "aggregate": "max"}}
    ends = {"type": "area", "opacity": 0.18, "line": {"strokeDash": [3, 3], "opacity": 0.7, "strokeWidth": 1}}
    points = {"type": "line", "point": True}
    tip = [_field("tap", "tap", "nominal"), _field("step", "step"), _field("rms", "RMS error", format=".3g")]
    tip += [_field("floor", "floor", format=".3g"), _field("budget", "budget", format=".3g")]
    return {
        "encoding": {"x": x},
        "layer": [
            {"mark": ends, "encoding": {**band, "color": {"value": "soft"}}},
            {"mark": points, "encoding": {"y": _log("rms", "RMS error"), "color": by, "tooltip": tip}},
        ],
    }


PLOTS: Mapping[str, dict[str, Any]] = {
    "order": {
        "height": 220,
        "layer": [
            {
                "mark": {"type": "point", "filled": True, "size": 22, "opacity": 0.85},
                "encoding": {
                    "x": _field("at", "layer, in execution order", axis={"labelAlign": "left", "labelOverlap": True}),
                    "y": _log("share", "share of what is allowed"),
                    "color": _field("error", "error", "nominal", scale={"domain": ["alone", "run"]}),
                    "tooltip": [_field("tap", "tap", "nominal"), _field("share", "share", format=".3g")],
                },
            },
            _BEYOND,
        ],
    },
    "depth": {"height": 200, **_against_floor("layer", "layer", _field("step", "step", "ordinal"))},
    "steps": {"height": 200, **_against_floor("step", "step (0 is the prefill)", {"value": "accent"})},
    "heat": {
        "mark": {"type": "rect", "tooltip": True},
        "encoding": {
            "x": _field("column", "", "ordinal", axis={"labelOverlap": True, "labelAngle": 0}),
            "y": _field("row", "", "ordinal", axis={"labelOverlap": True}),
            "color": _field("error", "|actual − expected|", scale={"type": "symlog", "interpolate": "rgb"}),
        },
    },
    "bins": {
        "height": 160,
        "mark": {"type": "bar", "tooltip": True},
        "encoding": {
            "x": _field("upto", "", "ordinal", sort=None, axis={"labelAngle": -45, "labelOverlap": True}),
            "y": _field("count", "elements", scale={"type": "symlog"}, axis={"tickCount": 4, "format": "d"}),
            "color": {"value": "accent"},
        },
    },
    "history": {
        "height": 240,
        "layer": [
            {
                "mark": {"type": "line", "point": True},
                "encoding": {
                    "x": _field("label", "version", "ordinal", sort=None, axis={"labelAngle": -30}),
                    "y": _log("share", "worst share of a budget"),
                    "color": _field("group", "group", "nominal"),
                    "tooltip": [
                        _field("label", "version", "nominal"),
                        _field("group", "group", "nominal"),
                        _field("share", "worst share", format=".3g"),
                    ],
                },
            },
            _BEYOND,
        ],
    },
}
"""Plot by name. Colours are words ("bad", "soft", "accent"), which the page turns into those of its theme; data and
widths come in the browser."""


def specification(name: str) -> dict[str, Any]:
    """A plot as Vega-Lite reads it, still without its data."""
    return {"$schema": _SCHEMA, "width": "container", "data": {"values": []}, **PLOTS[name]}


@cache
def drawing_code() -> str:
    """The JavaScript of Vega, Vega-Lite and Vega-Embed, minified, behind its licence."""
    libraries = ((_VEGA / f"{name}.min.js").read_text(encoding="utf-8") for name in ("vega", "vega-lite", "vega-embed"))
    code = "\n".join(library.partition("//# sourceMappingURL=")[0] for library in libraries)
    return f"/*\n{(_VEGA / 'LICENSE').read_text(encoding='utf-8')}*/\n{code}"
