"""The main job: an implementation, network and tokenizer, recorded on every golden and judged."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from qwen3_golden import GOLDEN_ROOT, ParityError, damaged, pb, read
from qwen3_parity.check import check
from qwen3_parity.checkpoints.weights import weights_at_hand
from qwen3_parity.judge.golden_path import case_names, golden_path
from qwen3_parity.judge.selection import EVERY, Selection
from qwen3_parity.judge.verdict import Verdicts

if TYPE_CHECKING:
    from qwen3_parity.recording.record_case import Implementation

OURS = ("", "qwen3", "qwen2", "transformer_encoder")
"""What our own implementation is, by model_type; a case of one op has none."""


def of_the_format(case: pb.Case) -> bool:
    """Whether a case is about the files alone, so that a reader and a writer are all it needs."""
    return case.mode == pb.PLUMBING or case.op == damaged.OP


def of_a_network(case: pb.Case) -> bool:
    """Whether a case is one of the networks that golden/networks describes; one with a graph is of any other, too."""
    return case.mode not in (pb.TOKENIZATION, pb.GRAPH) and not of_the_format(case)


def is_recorded(case: pb.Case) -> bool:
    """Whether a case has a network or a tokenizer to run."""
    return not of_the_format(case) and case.mode != pb.WEIGHTS


def goldens(selection: Selection = EVERY, *, kinds: Collection[str] = OURS) -> list[Path]:
    """The committed goldens of networks of some model_types, of any without one, sorted by name.

    Raises `ParityError` when there are none.
    """

    def chosen(case: pb.Case) -> bool:
        return of_a_network(case) and (not kinds or case.config.model_type in kinds)

    return _not_empty([path for path in _paths(selection) if chosen(_case(path))], selection)


def tokenization_goldens(selection: Selection = EVERY) -> list[Path]:
    """The committed goldens that a tokenizer can be judged on, likewise."""
    return _not_empty([p for p in _paths(selection) if _case(p).mode == pb.TOKENIZATION], selection)


def plumbing_goldens(selection: Selection = EVERY) -> list[Path]:
    """The committed goldens of the format alone, which a reader and a writer can be judged on, likewise."""
    return _not_empty([p for p in _paths(selection) if of_the_format(_case(p))], selection)


def chosen_goldens(selection: Selection, impl: str | None) -> list[Path]:
    """The goldens of a run: of our network and our tokenizer, or of what `impl` is.

    That is a network of any kind, unless `selection` takes tokenization cases alone. Raises `ParityError` for none.
    """
    cases = {path: _case(path) for path in _paths(selection)}
    texts = [path for path, case in cases.items() if case.mode == pb.TOKENIZATION]
    networks = [path for path, case in cases.items() if of_a_network(case)]
    ours = [path for path in networks if cases[path].config.model_type in OURS]
    return _not_empty((networks or texts) if impl else sorted([*ours, *texts]), selection)


@cache
def _case(path: Path) -> pb.Case:
    return read(path).case


def _paths(selection: Selection) -> list[Path]:
    files = {name: golden_path(name) for name in case_names()}
    return sorted(path for name, path in files.items() if selection.takes(name, path))


def _not_empty(chosen: list[Path], selection: Selection) -> list[Path]:
    if not chosen:
        raise ParityError(
            GOLDEN_ROOT / "cases",
            "there is nothing to compare",
            expected=f"goldens by {selection}",
            got="none of " + ", ".join(case_names()),
            next_step="give other globs, or leave out fewer features; model/* are for qwen3-parity record, then check",
        )
    return chosen


def run(
    out: Path,
    selection: Selection = EVERY,
    *,
    implementation: Implementation | None = None,
    partial: bool = False,
    count: Callable[[int, int], None] = lambda done, total: None,
) -> list[Verdicts]:
    """Record and judge the `chosen_goldens` of `selection`, of ours where there is no other implementation.

    The recordings go to `out`. `partial`: the cases' results need not be there. `count` gets how many of how many cases
    are done.
    """
    from qwen3_parity.recording.record_case import Implementation, record_case

    recorded = implementation or Implementation()
    results: list[Verdicts] = []
    paths = chosen_goldens(selection, recorded.impl)
    for path in paths:
        count(len(results), len(paths))
        golden = read(path, digests=True)
        candidate = out / f"{golden.case.name}.pb"
        record_case(path, candidate, recorded)
        weights = weights_at_hand(golden, GOLDEN_ROOT / "checkpoints")
        results.append(check(golden, candidate, weights, partial=partial))
    return results
