"""Everything that the page shows, as plain dicts: the template writes the first screen, the browser the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from qwen3_golden import Array, ParityError, Recording, pattern_of
from qwen3_parity.checkpoints.weights import checkpoints_of, weights_at_hand
from qwen3_parity.diagnosis.mistake import Mistake
from qwen3_parity.diagnosis.tap_elements import elements_of
from qwen3_parity.judge.budgets import floor_for, headroom
from qwen3_parity.judge.elements import Elements
from qwen3_parity.judge.plain import plain
from qwen3_parity.judge.spoken import spoken
from qwen3_parity.judge.verdict import Verdict, Verdicts
from qwen3_parity.report.page.sides import (
    arithmetic,
    backend,
    file_day,
    model_of,
    provenance,
    recordings_of,
    shown_path,
)
from qwen3_parity.report.page.texts import texts_of
from qwen3_parity.report.remarks import alone, less_than_both, remarks
from qwen3_parity.report.verdicts import NOT_PROVEN, of_budget, summary
from qwen3_parity.text.show import is_tokenization

_PICTURES, _PICTURES_OF_MANY, _ALL_PICTURES = 14, 4, 120
"""Taps of a page's only case, of one of several, and of all together, that are shown element by element."""
_PROBLEMS = 150
_LISTED = 400
_SAID = 2
"""Mistakes of a case that are said in the headline."""


@dataclass(frozen=True)
class Report:
    """What a page is of: cases judged, the mistakes behind what is red, files that were refused, cases not there, and
    whether they are `required`.

    `against` are the verdicts on another candidate's recordings of the same cases; `history` the figures of all
    versions. `weights` are the parameters of the only case, by canonical name; without them committed ones are read.
    """

    results: Sequence[Verdicts]
    mistakes: Sequence[Mistake] = ()
    refused: Sequence[ParityError] = ()
    missing: Sequence[str] = ()
    required: bool = False
    against: Sequence[Verdicts] = ()
    history: Sequence[dict[str, Any]] = ()
    weights: Mapping[str, Array] | None = None


def contents(report: Report) -> dict[str, Any]:
    """Plain dicts, lists, strings and numbers, names out of recordings as they are: whoever shows them escapes them."""
    others = {verdicts.case.name: verdicts for verdicts in report.against}
    red = max(1, len(_failed(report)))
    each = _PICTURES if len(report.results) == 1 else max(1, min(_PICTURES_OF_MANY, _ALL_PICTURES // red))
    cases = [
        spoken(_case(verdicts, others.get(verdicts.case.name), report.weights, each), verdicts.case)
        for verdicts in report.results
    ]
    return {
        "sentence": sentence(report),
        "good": bool(report.results) and not _failed(report) and not (report.required and report.missing),
        "compared": sum(verdicts.compared for verdicts in report.results),
        "of": sum(verdicts.of for verdicts in report.results),
        "mistakes": [asdict(mistake) | {"says": mistake.sentence} for mistake in report.mistakes],
        "refused": [str(error).replace(error.where, shown_path(error.where, "")) for error in report.refused],
        "missing": list(report.missing),
        "required": report.required,
        "cases": cases,
        "history": list(report.history),
        "not_proven": list(NOT_PROVEN),
    }


def _failed(report: Report) -> list[Verdicts]:
    return [verdicts for verdicts in report.results if verdicts.exit_code]


def sentence(report: Report) -> str:
    """The verdict in one sentence, and what the mistake is where it is one."""
    results, failed = report.results, _failed(report)
    if not results:
        return "Nothing was checked"
    if not failed:
        refused, missing = len(report.refused), len(report.missing) if report.required else 0
        more = f", and {refused} {'file was' if refused == 1 else 'files were'} refused" if refused else ""
        if missing:
            more += f", and {missing} required {'case was' if missing == 1 else 'cases were'} not delivered"
        where = results[0].case.name if len(results) == 1 else f"all {len(results)} cases"
        return f"Parity in {where}{less_than_both(results)}{more}"
    named = [mistake for mistake in report.mistakes if mistake.name]
    return _of_one(results[0], named, report) if len(results) == 1 else _of_several(failed, named, report)


def _of_one(verdicts: Verdicts, named: Sequence[Mistake], report: Report) -> str:
    start = f"{verdicts.word.capitalize()} in {verdicts.case.name}"
    if named:
        says = [f"it {mistake.sentence}" for mistake in named[:_SAID]]
        more = len(named) - len(says)
        rest = [f"{more} more mistake{'s' if more > 1 else ''}"] if more else []
        return f"{start}: {', and '.join([*says, *rest])}"
    wrong = _places(verdicts) or [place for mistake in report.mistakes if mistake.link for place in mistake.places]
    return f"{start}: {wrong[0]} is wrong on its own inputs" if wrong else start


def _of_several(failed: Sequence[Verdicts], named: Sequence[Mistake], report: Report) -> str:
    start = f"{len(failed)} of {len(report.results)} cases without parity"
    if not named:
        return start
    explained = {case for mistake in named for case in mistake.cases}
    whole = "it" if len(failed) == 1 else "them"
    which = whole if len(explained) == len(failed) else f"{len(explained)} of them"
    if len(named) == 1:
        return f"{start}, one mistake behind {which}: it {named[0].sentence}"
    return f"{start}: {len(named)} mistakes are behind {which}"


def _places(verdicts: Verdicts) -> list[str]:
    return [spoken(pattern_of(name).replace("{layer}", "*"), verdicts.case) for name in verdicts.wrong_alone]


def _case(
    verdicts: Verdicts, against: Verdicts | None, weights: Mapping[str, Array] | None, most: int
) -> dict[str, Any]:
    both, taps = recordings_of(verdicts), verdicts.taps
    names = {name: number for number, name in enumerate(dict.fromkeys(tap.name for tap in taps))}
    ops = {op: number for number, op in enumerate(dict.fromkeys(tap.op for tap in taps))}
    theirs = {} if against is None else {(tap.name, tap.step): tap for tap in against.taps}
    rows = [[names[tap.name], tap.step, ops[tap.op], *_numbers(tap, both), *_of_other(theirs, tap)] for tap in taps]
    order = {(tap.name, tap.step): number for number, tap in enumerate(taps)}
    return {
        "name": verdicts.case.name,
        "description": verdicts.case.description,
        "word": verdicts.word,
        "good": not verdicts.exit_code,
        "judged": verdicts.judged,
        "compared": verdicts.compared,
        "of": verdicts.of,
        "identical": verdicts.identical,
        "where": "" if verdicts.worst is None else verdicts.worst.where,
        "summary": summary(verdicts),
        **(_texts(verdicts, both) if is_tokenization(verdicts) else _network(verdicts, both, weights, most, order)),
        "golden": shown_path(verdicts.golden, verdicts.case.name),
        "candidate": shown_path(verdicts.candidate, verdicts.case.name),
        "model": "" if both is None else model_of(both[1]),
        "checkpoints": list(
            dict.fromkeys(checkpoint.name for checkpoint in verdicts.case.checkpoint if checkpoint.name)
        ),
        "date": file_day(Path(verdicts.candidate)),
        "alone": alone(verdicts),
        "remarks": remarks(verdicts),
        "names": list(names),
        "ops": list(ops),
        "rows": rows,
        "problems": {order[key]: problem for key, problem in _problems(verdicts)},
        "structural": [_near(str(problem), verdicts) for problem in verdicts.structural],
        "coverage": _coverage(verdicts),
        "provenance": [] if both is None else provenance(*both),
        "other": None if against is None else _beside(verdicts, against),
    }


Both = tuple[Recording, Recording] | None
"""The golden and the candidate, where both can be read again."""


def _texts(verdicts: Verdicts, both: Both) -> dict[str, Any]:
    """What is shown of a tokenizer's case where a network's has numbers."""
    shown = [] if both is None else texts_of(*both, verdicts)
    empty = {"arithmetic": "", "backend": "", "rooms": dict[str, float](), "pictures": dict[int, Any]()}
    return {"kind": "texts", "texts": shown, "worst": None, **empty}


def _network(
    verdicts: Verdicts,
    both: Both,
    weights: Mapping[str, Array] | None,
    most: int,
    order: Mapping[tuple[str, int], int],
) -> dict[str, Any]:
    """What is shown of a network's case where a tokenizer's has texts."""
    pictures: Mapping[tuple[str, int], Elements] = {}
    if both is not None:
        many = verdicts.exit_code or most > _PICTURES_OF_MANY
        pictures = _pictures(verdicts, *both, weights, most if many else 1)
    return {
        "kind": "taps",
        "texts": [],
        "worst": None if verdicts.worst is None else _number(verdicts.worst.share),
        "arithmetic": arithmetic(verdicts.arithmetic),
        "backend": backend(verdicts.backend),
        "rooms": {op: headroom("run", op).rms for op in dict.fromkeys(tap.op for tap in verdicts.taps)},
        "pictures": {order[key]: _picture(elements) for key, elements in pictures.items()},
    }


def _numbers(tap: Verdict, both: Both) -> list[Any]:
    """Share, own share (or why there is none), RMS error, its floor, largest error, ULPs, NaN and infinities (three),
    whether it passed, whether it is exact."""
    own_share = None if tap.alone is None else tap.alone.reason or _number(tap.alone.share)
    metrics = tap.metrics
    floor = None
    if both is not None and (expected := both[0].get(tap.name, tap.step)) is not None:
        floor = _number(floor_for(both[1], expected).rms) if expected.info.HasField("floor") else None
    if metrics is None:
        return [_number(tap.share), own_share, None, floor, None, None, None, int(tap.passed), int(tap.exact)]
    counts = [metrics.nonfinite_actual, metrics.nonfinite_expected, metrics.nonfinite_both]
    ulp = None if metrics.differing and not metrics.ulp else metrics.ulp
    values = [_number(metrics.rms), floor, _number(metrics.max), ulp, counts if any(counts) else None]
    return [_number(tap.share), own_share, *values, int(tap.passed), int(tap.exact)]


def _of_other(theirs: dict[tuple[str, int], Verdict], tap: Verdict) -> list[Any]:
    if not theirs:
        return []
    verdict = theirs.get((tap.name, tap.step))
    if verdict is None:
        return [None, None]
    return [
        _number(verdict.share),
        None if verdict.alone is None else verdict.alone.reason or _number(verdict.alone.share),
    ]


def _number(value: float) -> Any:
    """Three digits are enough for a picture; infinities and NaN as strings."""
    return plain(float(f"{value:.3g}"))


def _problems(verdicts: Verdicts) -> Iterator[tuple[tuple[str, int], dict[str, str]]]:
    failing = [tap for tap in verdicts.taps if tap.problem is not None]
    failing.sort(key=lambda tap: tap.alone is None or tap.alone.passed)  # what is wrong alone first
    for tap in failing[:_PROBLEMS]:
        assert tap.problem is not None
        fields = ("where", "rule", "expected", "got", "next_step", "fault")
        yield (tap.name, tap.step), {name: _near(getattr(tap.problem, name), verdicts) for name in fields}


def _near(text: str, verdicts: Verdicts) -> str:
    """A text with both files of a case as the page calls them."""
    for path in (verdicts.golden, verdicts.candidate):
        text = text.replace(path, shown_path(path, verdicts.case.name))
    return text


def _pictures(
    verdicts: Verdicts, golden: Recording, candidate: Recording, weights: Mapping[str, Array] | None, most: int
) -> dict[tuple[str, int], Elements]:
    begins = [tap for tap in verdicts.taps if tap.alone is not None and not (tap.alone.reason or tap.alone.passed)][:1]
    shown = dict.fromkeys((tap.name, tap.step) for tap in (*begins, *worst_taps(verdicts.taps, most)))
    keys = list(shown)[:most]
    if not keys:
        return {}
    if weights is None and any(tap.judged_alone for tap in verdicts.taps):
        weights = weights_at_hand(golden, checkpoints_of(Path(verdicts.golden)))
    return elements_of(golden, candidate, keys, weights)


def worst_taps(taps: Sequence[Verdict], most: int) -> list[Verdict]:
    """The taps to look at closely: of each place the one that is worst alone, then the one that is worst in the run.

    Places that are wrong alone come first, then by the share of the budget; what has no error is left out.
    """
    best: dict[str, Verdict] = {}
    for tap in taps:
        place = pattern_of(tap.name)
        if _badness(tap) > (_badness(best[place]) if place in best else (0.0, 0.0)):
            best[place] = tap
    return sorted(best.values(), key=_badness, reverse=True)[:most]


def _badness(tap: Verdict) -> tuple[float, float]:
    own_share = 0.0 if tap.alone is None or tap.alone.passed else tap.alone.share
    return own_share, 0.0 if tap.metrics is None or not tap.metrics.differing else tap.share


def _picture(elements: Elements) -> dict[str, Any]:
    return {
        "axes": elements.axes,
        "starts": elements.starts,
        "heat": [[_number(value) for value in row] for row in elements.heat.tolist()],
        "unit": elements.unit,
        "bins": [[plain(bound), count] for bound, count in elements.bins],
        "worst": [[list(item.index), plain(item.actual), plain(item.expected), item.ulps] for item in elements.worst],
    }


def _coverage(verdicts: Verdicts) -> dict[str, Any]:
    """What was not compared, and why: by the pattern of the taps, with how many there are of each."""
    hidden = Counter(_pattern(name) for name in verdicts.not_materialised)
    alone_not = Counter(
        (tap.alone.reason, _pattern(tap.name)) for tap in verdicts.taps if tap.alone is not None and tap.alone.reason
    )
    return {
        "not_materialised": hidden.most_common()[:_LISTED],
        "missing": verdicts.missing,
        "no_results": verdicts.no_results[:_LISTED],
        "not_alone": [[reason, place, count] for (reason, place), count in alone_not.most_common()[:_LISTED]],
    }


def _pattern(where: str) -> str:
    return pattern_of(where.partition(" (step")[0]).replace("{layer}", "*")


def _beside(verdicts: Verdicts, against: Verdicts) -> dict[str, Any]:
    """Another candidate beside this one: its verdict, and how many taps only one of the two has within budget."""
    good = {(tap.name, tap.step): tap.passed for tap in verdicts.taps}
    theirs = {(tap.name, tap.step): tap.passed for tap in against.taps}
    common = good.keys() & theirs.keys()
    return {
        "candidate": shown_path(against.candidate, against.case.name),
        "word": against.word,
        "good": not against.exit_code,
        "summary": summary(against),
        "worst": "" if against.worst is None else f"{of_budget(against.worst.share)} at {against.worst.where}",
        "mended": sum(theirs[key] and not good[key] for key in common),
        "broken": sum(good[key] and not theirs[key] for key in common),
    }
