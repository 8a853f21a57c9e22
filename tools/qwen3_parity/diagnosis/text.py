"""From two recordings of a tokenizer to a diagnosis: which stages are wrong, and what the mistake is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from qwen3_golden import GOLDEN_ROOT, STAGES, ParityError, Recording
from qwen3_parity.check import check
from qwen3_parity.diagnosis.explanation import Explanation
from qwen3_parity.judge.verdict import Verdicts
from qwen3_parity.text.blame import StageVerdict, blame, from_other_merges
from qwen3_parity.text.mistakes import ENCODES, merged_as_its_ids, reproduces
from qwen3_parity.text.oracle import Oracle
from qwen3_parity.text.stage import Wrong
from qwen3_parity.text.table import TABLE
from qwen3_reference.checkpoints.tokenizer_files import tokenizer_checkpoint

_RIGHT = 60
"""Texts on which the stage is right that a mistake is tried on."""


@dataclass(frozen=True)
class TokenFault:
    """A stage that is wrong on its own inputs; `others` are judged with it, because they are not told."""

    stage: str
    others: tuple[str, ...]
    wrong: Sequence[StageVerdict]
    passing: Sequence[StageVerdict]
    explanations: Sequence[Explanation] = ()

    @property
    def place(self) -> str:
        """The stage, as the name of a tap."""
        return f"tokenizer.{self.stage}"

    @property
    def name(self) -> str:
        """The best explanation's name; empty when none explains it everywhere."""
        best = self.explanations[0] if self.explanations else None
        return best.name if best is not None and best.whole == best.of else ""


@dataclass(frozen=True)
class TokenDiagnosis:
    """The whole run judged (`verdicts`), every stage of every text `alone`, and the stages that are wrong."""

    verdicts: Verdicts
    alone: Sequence[StageVerdict]
    faults: Sequence[TokenFault]


def directory_of(recording: Recording, model: Path | None, tokenizers: Path = GOLDEN_ROOT / "tokenizers") -> Path:
    """The tokenizer's directory, verified by its digest: `model`, or the folder that the case names."""
    known = [checkpoint for checkpoint in recording.case.checkpoint if checkpoint.role == "tokenizer"]
    if not known:
        raise ParityError(
            recording.source,
            "the case names no tokenizer",
            expected="a checkpoint with the role tokenizer",
            got=", ".join(checkpoint.role for checkpoint in recording.case.checkpoint) or "none",
            next_step="give a recording of mode TOKENIZATION",
        )
    directory = model or tokenizers / known[0].name
    if not directory.is_dir():
        raise ParityError(
            directory,
            "the tokenizer of this case is not here",
            expected=f"the directory of {known[0].name}",
            got="nothing",
            next_step="give its directory with --model",
        )
    loaded = tokenizer_checkpoint(directory)
    if loaded.sha256 != known[0].sha256:
        raise ParityError(
            directory,
            "this is another tokenizer than the recording's",
            expected=f"SHA-256 {known[0].sha256.hex()}",
            got=loaded.sha256.hex(),
            next_step="give the directory that the golden was recorded from with --model",
        )
    return directory


def diagnose_tokenization(
    golden: Recording,
    candidate: Recording,
    directory: Path,
    progress: Callable[[str], None] = lambda _: None,
    *,
    partial: bool = False,
) -> TokenDiagnosis:
    """Judge a candidate as a whole and stage by stage, and explain each stage that is wrong.

    `directory` is the tokenizer's. `partial`: the results need not be there. Raises `ParityError` when the two
    recordings do not belong together, and when Hugging Face cannot load the tokenizer.
    """
    progress("the whole run")
    verdicts = check(golden, candidate, partial=partial)
    progress("each stage alone")
    oracle = Oracle.of(directory)
    alone = blame(oracle, candidate)
    faults = []
    for fault in _faults(oracle, alone):
        progress(f"what explains {fault.stage}")
        faults.append(replace(fault, explanations=explain(oracle, fault)))
    return TokenDiagnosis(verdicts, alone, faults)


def _faults(oracle: Oracle, verdicts: Sequence[StageVerdict]) -> Iterator[TokenFault]:
    """Ids that follow from merges at other places are the merges' fault where merges are wrong at all."""
    if any(verdict.stage == "merges" and verdict.is_right is False for verdict in verdicts):
        verdicts = [
            verdict for verdict in verdicts if verdict.is_right is not False or not from_other_merges(oracle, verdict)
        ]
    for stage in STAGES:
        ours = [verdict for verdict in verdicts if verdict.stage == stage and verdict.is_right is not None]
        wrong = sorted((verdict for verdict in ours if not verdict.is_right), key=_size)
        if wrong:
            yield TokenFault(
                stage, wrong[0].others, wrong, sorted((verdict for verdict in ours if verdict.is_right), key=_size)
            )


def _size(verdict: StageVerdict) -> int:
    return int(verdict.message.ByteSize())


def explain(oracle: Oracle, fault: TokenFault) -> list[Explanation]:
    """The mistakes that give the candidate's values everywhere, those first that spare the right texts; or else the one
    that does so in most of the texts."""
    best: dict[str, Explanation] = {}
    partly: list[Explanation] = []
    for wrong in _candidates(fault):
        texts, misses = list[tuple[str, int]](), 0
        for verdict in fault.wrong:
            if reproduces(oracle, verdict, wrong):
                texts.append((verdict.message.name, 0))
            else:
                misses += 1
            if misses > len(fault.wrong) // 2:
                break
        else:
            tried = fault.passing[:: len(fault.passing) // _RIGHT + 1] if not misses else []
            spoiled = sum(not reproduces(oracle, verdict, wrong) for verdict in tried)
            explanation = Explanation(
                wrong.name,
                wrong.says,
                wrong.fix,
                place=fault.place,
                share=0.0,
                whole=len(texts),
                partly=0,
                of=len(fault.wrong),
                contradicted=spoiled,
                passing=len(tried),
                taps=tuple(texts),
            )
            if misses:
                partly.append(explanation)
            elif wrong.name not in best or spoiled < best[wrong.name].contradicted:
                best[wrong.name] = explanation
    if best:
        ways = {wrong.says: wrong for wrong in _candidates(fault)} if fault.stage == "merges" else {}
        return sorted(
            best.values(),
            key=lambda explanation: (explanation.contradicted, _elsewhere(oracle, fault, ways.get(explanation.says))),
        )
    return sorted(partly, key=lambda explanation: -explanation.whole)[:2]


def _elsewhere(oracle: Oracle, fault: TokenFault, wrong: Wrong | None) -> int:
    """In how many texts the pieces of a wrong way to merge are not those of the candidate's ids."""
    if wrong is None:
        return 0
    texts = [verdict for verdict in fault.wrong if not merged_as_its_ids(oracle, verdict, wrong)]
    return len(texts)


def _candidates(fault: TokenFault) -> Iterator[Wrong]:
    for stage in (fault.stage, *reversed(fault.others)):
        yield from TABLE[stage].wrong
    if TABLE[fault.stage].by_encoding is not None:  # a mistake of an encoding shows there too
        for stage in ENCODES:
            yield from TABLE[stage].wrong
