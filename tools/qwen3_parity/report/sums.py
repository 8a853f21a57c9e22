"""What a pytest session of judged recordings came to: which tests are red, what was compared, what was delivered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

_TESTS = 8
"""Names of red tests, unless every one is asked for."""


class Sums(NamedTuple):
    """Of a judged candidate: its case, taps compared, of how many, the largest share (None: text), where, the contract;
    of a red one also a line, its files, and whether it is an op alone."""

    case: str
    compared: int
    of: int
    share: float | None
    where: str
    contract: str
    red: str = ""
    golden: str = ""
    candidate: str = ""
    alone: bool = False


def red_tests(failed: Collection[str], downstream: Collection[str]) -> Iterator[str]:
    """The names of red tests as pytest says them, those first whose own op is wrong."""
    lines = [f"FAILED {test}" for test in failed] + [f"DOWNSTREAM {test}" for test in downstream]
    yield from lines[:_TESTS]
    if len(lines) > _TESTS:
        yield f"and {len(lines) - _TESTS} more red tests (-v names them)"


def beside(tests: Collection[str]) -> Iterator[str]:
    """The red tests that judge no golden with the others: what is diagnosed is likely behind them, too."""
    if tests:
        files = Counter(test.partition("::")[0].rpartition("/")[2] for test in tests)
        listed = ", ".join(f"{file} {count}" for file, count in files.items())
        yield f"red as well, look again when the above is mended (-v shows them), {len(tests)}: {listed}"


def comparisons(sums: Mapping[str, Sums]) -> Iterator[str]:
    """How much was compared and how well, and by which contract."""
    compared, of = sum(case.compared for case in sums.values()), sum(case.of for case in sums.values())
    text = f"{compared} of {of} taps compared in {len(sums)} cases"
    shares = [(case.share, case.where, case.case) for case in sums.values() if case.share is not None]
    if shares:
        share, where, name = max(shares, key=lambda entry: entry[0])
        text += f"; largest share of a budget {share:.2g} at {where} of {name}"
    yield text
    yield from (f"judged by {contract}" for contract in dict.fromkeys(case.contract for case in sums.values()))


def deliveries(sums: Mapping[str, Sums], delivered: Iterable[str]) -> list[str]:
    """Which candidates were judged, which were delivered and no test asked for, and which cases have none."""
    from qwen3_parity.judge.candidates import golden_names

    judged = {case.case for case in sums.values()}
    every, at_hand = golden_names().keys(), set(delivered)
    groups = {
        "judged": (judged, every - judged),
        "delivered, and no test of this run judged it": (at_hand - judged, every - at_hand | judged),
        "not delivered": (every - at_hand, at_hand),
    }
    lines = [
        f"{group}, {len(names)}: {', '.join(in_brief(sorted(names), others))}"
        for group, (names, others) in groups.items()
        if names
    ]
    return lines if judged else ["nothing was judged, and that is a failure", *lines]


def in_brief(names: Iterable[str], others: Iterable[str]) -> list[str]:
    """Names of cases, all those of a folder that has none of the `others` as one: "op/*"."""
    shared = {name.partition("/")[0] for name in others}
    folders = ((name, name.partition("/")[0]) for name in names)
    return list(dict.fromkeys(name if folder in shared else f"{folder}/*" for name, folder in folders))
