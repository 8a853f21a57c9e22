"""A card for people: Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from qwen3_golden.errors import printable
from qwen3_parity.judge.budgets import percent

_WORDS = 200
"""Characters of somebody's words that are shown."""


def markdown(card: Mapping[str, Any]) -> str:
    """The levels and the cases as tables, with who made the recordings and what they were judged by."""
    return "\n".join(_lines(card)) + "\n"


def verdict(card: Mapping[str, Any]) -> str:
    """One line: whose card it is, and the levels that are reached."""
    done = [name for name, level in card["levels"].items() if level["reached"]]
    return f"{card['name']}: levels reached: {', '.join(done) or 'none'}"


def _lines(card: Mapping[str, Any]) -> Iterator[str]:
    yield f"# Card of {_code(card['name'])}"
    done = [name for name, level in card["levels"].items() if level["reached"]]
    yield f"\n{card['date']}. Levels reached: {', '.join(done) or 'none'}.\n"
    if cases := card["by_reference"]:
        yield f"No implementation's, but the goldens themselves or recorded by the reference: {', '.join(cases)}.\n"
    yield "| level | reached | parity in | worst share of a budget | what it lacks |"
    yield "|---|---|---|---|---|"
    for name, level in card["levels"].items():
        lacks = [f"missing: {', '.join(level['missing'])}"] if level["missing"] else []
        lacks += [f"red: {', '.join(level['red'])}"] if level["red"] else []
        where = f", in {level['worst_case']}" if level["worst_share"] is not None else ""
        share = _share(level["worst_share"]) + where
        word = "yes" if level["reached"] else "no"
        yield f"| {name} | {word} | {level['parity']} of {level['of']} cases | {share} | {'; '.join(lacks)} |"
    yield "\n| case | verdict | judged | compared | worst share of a budget |"
    yield "|---|---|---|---|---|"
    for name, case in card["cases"].items():
        where = f", {_code(case['where'])}" if case["where"] else ""
        taps = f"{case['compared']} of {case['of']}"
        yield f"| {name} | {case['verdict']} | {case['judged']} | {taps} | {_share(case['worst_share'])}{where} |"
    yield ""
    for origin in card["producers"]:
        versions = ", ".join(_code(f"{name} {version}") for name, version in origin["versions"].items())
        ran = " ".join(_code(origin[part]) for part in ("platform", "kernels") if origin[part])
        yield f"Recorded by {_code(origin['producer'])} ({'; '.join(part for part in (ran, versions) if part)}).  "
    edited, own_goldens = card["contract"]["edited"], card["contract"]["own_goldens"]
    states = [f"edited: {', '.join(edited)}"] * bool(edited)
    states += [f"goldens of the user's own: {', '.join(own_goldens)}"] * bool(own_goldens)
    state = "; ".join(states) or "as released"
    yield f"Judged by qwen3-parity {card['judge']['qwen3-parity']}, contract {card['contract']['digest']}, {state}."
    yield "\nTo compute it again from the same recordings: `qwen3-parity check FOLDER --card CARD.json`."


def _share(share: float | str | None) -> str:
    if share is None:
        return "no budget: equal or not"
    return share if isinstance(share, str) else percent(share)


def _code(text: str) -> str:
    """Somebody's words as code: nothing in them is Markdown, a sign of a table or of an emoji, and nothing ends the
    line."""
    words = printable(text).replace("\n", " ").strip()
    for sign in "`|":
        words = words.replace(sign, f"\\x{ord(sign):02x}")
    return f"`{words[:_WORDS] or '-'}`"
