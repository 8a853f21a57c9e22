"""Tokenization goldens made again with a mistake of the library in one stage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice
from typing import Any, NamedTuple

from qwen3_golden import GOLDEN_ROOT, Recording, pb, read
from qwen3_golden.stages import STAGES_OF
from qwen3_parity.diagnosis.text import TokenDiagnosis, diagnose_tokenization, directory_of
from qwen3_parity.text.inputs import messages_of
from qwen3_parity.text.mistakes import run_with
from qwen3_parity.text.oracle import Oracle
from qwen3_parity.text.stage import State, Wrong
from qwen3_parity.text.table import TABLE

_TEXTS = 3
"""Texts at which a mistake shows that are judged."""
_KIND = {stage: kind for kind, stages in STAGES_OF.items() for stage in stages}


@cache
def _goldens() -> Sequence[tuple[Recording, Oracle]]:
    paths = sorted((GOLDEN_ROOT / "cases" / "tokenization").glob("*.pb"))
    oracles = cache(Oracle.of)
    return [(golden, oracles(directory_of(golden, None))) for golden in map(read, paths)]


def _stored(message: Any, state: State) -> Any:
    """A copy of the message with these values; raises `ValueError` for one that its field cannot hold."""
    out = type(message)()
    out.CopyFrom(message)
    if isinstance(out, pb.Encoding):
        _store_encoding(out, state)
    elif isinstance(out, pb.Decoding):
        out.piece[:], out.text, out.chunk[:] = state["pieces"], state["decoded"], state["chunks"]
    elif isinstance(out, pb.Batch):
        del out.row[:]
        out.row.extend(pb.BatchRow(input_id=ids, attention_mask=mask) for ids, mask in state["batch"])
    else:
        out.rendered, out.id[:] = state["rendered"], state["rendered_ids"]
    return out


def _store_encoding(out: pb.Encoding, state: State) -> None:
    del out.segment[:]
    plain = zip(state["normalized"], state["pre_tokens"], strict=True)
    inside = zip(state["symbols"], state["merges"], state["ids"].each, strict=True)
    for begin, end, added in state["segments"]:
        segment = out.segment.add(begin=begin, end=end, added_token=added)
        if added is None:
            segment.normalized, pieces = next(plain)
            for piece, (symbols, merges, ids) in zip(pieces, inside, strict=False):
                segment.pre_token.add(**piece._asdict(), symbols=symbols, merge=merges, id=ids)
    out.id[:] = state["ids"].whole
    if state["offsets"] is not None:  # Hugging Face maps its own ids alone: others keep the golden's
        del out.offset[:]
        out.offset.extend(pb.Span(begin=begin, end=end) for begin, end in state["offsets"])


def _pairs(golden: Recording, oracle: Oracle, wrong: Wrong) -> Iterator[tuple[Any, Any, bool]]:
    """Texts as the golden has them and as the mistake makes them, and whether it shows."""
    kind, stage = _KIND[wrong.stage], TABLE[wrong.stage]
    for message in messages_of(golden.tokenization, kind):
        try:
            stored = _stored(message, run_with(oracle, message, wrong, STAGES_OF[kind], {}))
        except (LookupError, ValueError, TypeError):  # it cannot be made here, or no recording can hold it
            yield message, message, False
            continue
        pieces = {"pieces": getattr(message, "piece", ())}
        yield message, stored, not stage.same(stage.observed(stored), stage.observed(message), pieces)


def _diagnosed(golden: Recording, wrong: Wrong, both: Sequence[tuple[Any, Any]]) -> TokenDiagnosis:
    sides = [pb.Tokenization(**{_KIND[wrong.stage]: messages}) for messages in zip(*both, strict=True)]
    correct, candidate = (replace(golden, tokenization=side, source="golden.pb") for side in sides)
    return diagnose_tokenization(correct, candidate, directory_of(golden, None))


class Answer(NamedTuple):
    """`names`: of each stage that is blamed, the mistakes that explain all its texts."""

    caught: bool
    names: Mapping[str, Sequence[str]]


def answer(wrong: Wrong) -> Answer | None:
    """What the judge says of a mistake, on the first golden in which it shows; None where it shows in none."""
    for golden, oracle in _goldens():
        shown = ((message, stored) for message, stored, shows in _pairs(golden, oracle, wrong) if shows)
        if both := list(islice(shown, _TEXTS)):
            diagnosis = _diagnosed(golden, wrong, both)
            names = {f.stage: [e.name for e in f.explanations if e.whole == e.of] for f in diagnosis.faults}
            return Answer(diagnosis.verdicts.exit_code == 1, names)
    return None


def first_names(wrong: Wrong) -> Iterator[str]:
    """The first explanation of its stage, on each golden in which the mistake shows, with all the golden's texts."""
    for golden, oracle in _goldens():
        texts = list(_pairs(golden, oracle, wrong))
        if any(shows for *_, shows in texts):
            diagnosis = _diagnosed(
                golden, wrong, [(correct, stored if shows else correct) for correct, stored, shows in texts]
            )
            yield next((fault.name for fault in diagnosis.faults if fault.stage == wrong.stage), "")
