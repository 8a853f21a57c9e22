"""The judge of tokenizers: one recording against another, text by text and stage by stage. Everything is exact."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest

from qwen3_golden import Recording, pb
from qwen3_parity.judge.compare import Metrics
from qwen3_parity.judge.match import same_case
from qwen3_parity.judge.verdict import Problem, Verdict, Verdicts
from qwen3_parity.text.delivered import delivered, results, same_given
from qwen3_parity.text.given import STAGES_OF, Item, items_of
from qwen3_parity.text.streams import early, late
from qwen3_parity.text.views import EACH, VIEWS, View, Views, escaped

_AROUND = 4
_LETTERS = 24
"""What is shown before a difference and behind it: things, and characters."""


def check_tokenization(golden: Recording, candidate: Recording) -> Verdicts:
    """Judge a tokenizer's recording by a golden: a verdict for each stage of each text, in order.

    A verdict's name is "tokenizer." and the stage, its step the index of the text (or of the list of ids, the batch,
    the conversation). Raises `ParityError` when the candidate was given something else.
    """
    same_case(candidate, golden)
    same_given(candidate, golden)
    found = delivered(candidate, golden)
    taps = list(_verdicts(golden, candidate, found.both))
    if not taps:
        zero = Problem(
            candidate.source,
            "zero comparisons: not one stage was judged",
            expected=f"stages of {golden.case.name}: {', '.join(golden.run.materialised)}",
            got=", ".join(candidate.run.materialised) or "none declared",
            next_step=f"qwen3-parity show {candidate.source}",
        )
        found.problems.append(zero)
    return Verdicts(
        case=golden.case,
        golden=golden.source,
        candidate=candidate.source,
        arithmetic=candidate.run.arithmetic,
        backend=candidate.run.backend,
        taps=taps,
        structural=found.problems,
        not_materialised=found.not_materialised,
        missing=found.missing,
        results=results(golden),
    )


def joined(parts: Sequence[Verdicts]) -> Verdicts:
    """The verdicts on several recordings by one tokenizer as those on one; the step of each is the part's number."""
    return replace(
        parts[0],
        taps=[replace(tap, step=index) for index, part in enumerate(parts) for tap in part.taps],
        structural=[problem for part in parts for problem in part.structural],
        missing=sum(part.missing for part in parts),
        results=[(name, index) for index, part in enumerate(parts) for name, _ in part.results],
    )


def _verdicts(golden: Recording, candidate: Recording, both: Sequence[str]) -> Iterator[Verdict]:
    """Text by text, each stage by stage; all of a text's problems name the first stage of it that fails."""
    next_step = f"qwen3-parity diagnose {golden.source} {candidate.source}"
    left_out = () if set(both) & {"pre_tokens", "symbols", "merges"} else (EACH,)
    for kind, stages in STAGES_OF.items():
        expected, actual = items_of(golden.tokenization, kind), items_of(candidate.tokenization, kind)
        for index, (wanted, got) in enumerate(zip(expected, actual, strict=True)):
            first = ""
            for stage in (stage for stage in stages if stage in both):
                metrics, found = _judge(stage, wanted, got, left_out)
                verdict = Verdict(f"tokenizer.{stage}", index, stage, exact=True, metrics=metrics)
                if found is not None:
                    where = f"{verdict.name} of {escaped(wanted.name)}"
                    first = first or where
                    verdict = replace(verdict, problem=Problem(where, *found, next_step, first_bad=first))
                yield verdict


def _judge(stage: str, expected: Item, actual: Item, left_out: Sequence[str]) -> tuple[Metrics, Found | None]:
    if stage == "chunks":
        assert isinstance(expected, pb.Decoding) and isinstance(actual, pb.Decoding)
        found = _chunks(expected, actual)
        return Metrics(max(len(expected.chunk), 1), int(found is not None)), found
    wanted, got = VIEWS[stage](expected), VIEWS[stage](actual)
    return _compare(_without(left_out, wanted), _without(left_out, got), getattr(expected, "text", ""))


def _without(names: Sequence[str], views: Views) -> Views:
    return {name: view for name, view in views.items() if name not in names}


Found = tuple[str, str, str]
"""Rule, expected and got of a difference."""


def _compare(expected: Views, actual: Views, text: object) -> tuple[Metrics, Found | None]:
    """How many things differ, and the first that does, with what stands around it on both sides."""
    empty = View((), str)
    count, differing, found = 0, 0, None
    for what in dict.fromkeys([*expected, *actual]):
        wanted, got = expected.get(what, empty), actual.get(what, empty)
        count += max(len(wanted.items), len(got.items))
        nothing = object()
        pairs = zip_longest(wanted.items, got.items, fillvalue=nothing)
        wrong = [at for at, (one, two) in enumerate(pairs) if one != two]
        differing += len(wrong)
        if wrong and found is None:
            found = _difference(what, wanted, got, wrong[0], text if isinstance(text, str) else "")
    return Metrics(max(count, 1), differing), found  # the empty text's nothing is one thing


def _difference(what: str, expected: View, actual: View, at: int, text: str) -> Found:
    rule = f"other {what}, first at {at} of {len(expected.items)}"
    if text and expected.places:
        place = expected.places[min(at, len(expected.places) - 1)]
        rule += f", in the text '{escaped(text[max(place - _LETTERS, 0) : place])}▸{escaped(text[place:][:_LETTERS])}'"
    wanted, got = _around(expected, at), _around(actual, at)
    if wanted == got:
        wanted, got = (f"{side}  {_item(view, at)}" for side, view in ((wanted, expected), (got, actual)))
    return rule, wanted, got


def _around(view: View, at: int) -> str:
    width = _AROUND if view.glue else _LETTERS
    begin, end = max(at - width, 0), min(at + width + 1, len(view.items))
    shown = view.glue.join(map(view.show, range(begin, end)))
    if not shown and at >= len(view.items):
        return "nothing"
    return f"{'…' * (begin > 0)}{shown}{'…' * (end < len(view.items))}"


def _item(view: View, at: int) -> object:
    return view.items[at] if at < len(view.items) else "nothing"


def _chunks(expected: pb.Decoding, actual: pb.Decoding) -> Found | None:
    """A stream may give text out earlier than Hugging Face's, as soon as its ids bring it, not later.

    Its parts are whole and make the text.
    """
    text, got = "".join(expected.chunk), "".join(actual.chunk)
    if len(actual.chunk) != len(expected.id) + 1:
        return "a chunk for each id and one at the end", f"{len(expected.id) + 1} chunks", str(len(actual.chunk))
    if got == text:
        ahead, behind = early(expected.piece, actual.chunk), late(expected.chunk, actual.chunk)
        if ahead is not None:
            rule = f"a stream gave out what its ids had not brought, first at chunk {ahead} of {len(expected.chunk)}"
            brought = b"".join(expected.piece[: ahead + 1]).decode("utf-8", "replace")
            return rule, escaped(brought[-_LETTERS:]), escaped("".join(actual.chunk[: ahead + 1])[-_LETTERS:])
        if behind is None:
            return None
        wanted, came = ("".join(side[: behind + 1]) for side in (expected.chunk, actual.chunk))
        rule = f"whole characters are held back, first at chunk {behind} of {len(expected.chunk)}"
        return rule, f"…{escaped(wanted[-_LETTERS:])}", f"…{escaped(came[-_LETTERS:])}"
    at = next((i for i, (one, two) in enumerate(zip(text, got, strict=False)) if one != two), min(len(text), len(got)))
    rule = f"the chunks do not join to the text, first at {at} of {len(text)} characters"
    if got[at : at + 1] == "�":
        rule = f"a stream gave out half a character, at {at} of {len(text)} characters"
    joined = VIEWS["decoded"](pb.Decoding(text=text)), VIEWS["decoded"](pb.Decoding(text=got))
    wanted, came = (_around(next(iter(views.values())), at) for views in joined)
    places = [len("".join(actual.chunk[:index])) for index in range(len(actual.chunk))]
    index = sum(place <= at for place in places) - 1
    return f"{rule}, chunk {index}", wanted, came
