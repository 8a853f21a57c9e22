"""What comes after an answer, for whoever works by the JSON alone: what to do, the command then, what it decides."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from qwen3_golden import GOLDEN_ROOT, Recording, pattern_of
from qwen3_parity.diagnosis.parameters import FIX, FOREIGN
from qwen3_parity.diagnosis.precision import declared, lossy_alone, scatters
from qwen3_parity.diagnosis.right_alone import other_type
from qwen3_parity.folder.levels import next_level
from qwen3_parity.judge import next_command
from qwen3_parity.judge.by_reference import ITSELF
from qwen3_parity.judge.recapture import recapture

if TYPE_CHECKING:
    from qwen3_parity.conformance.run import Conformance, Failure, Fresh
    from qwen3_parity.diagnosis.answer import Diagnosis
    from qwen3_parity.diagnosis.explained import Explained
    from qwen3_parity.diagnosis.parameters import ParameterFault
    from qwen3_parity.diagnosis.text import TokenDiagnosis
    from qwen3_parity.folder.by_golden import ByGolden
    from qwen3_parity.folder.check import Folder
    from qwen3_parity.folder.diagnose import FolderDiagnosis
    from qwen3_parity.judge.verdict import Verdicts

Next = dict[str, str | bool | None]
"""`do`, `says`, `mistake`, `again`, `command`, `decides`, see `step`."""
CHECKED = "exit 0: parity, stop; exit 1: its own next says what is left"
DIAGNOSED = "which ops are wrong on their own inputs, and the one mistake to fix first"
_SHOWN = 12
_SCATTERS = (
    "its errors scatter as roundings do, which the recording declares; whether anything else is otherwise cannot be "
    "told from so few taps: record what the modules within give, too"
)
_UNKNOWN = "no known mistake reproduces it"


def command(verb: str, *arguments: str | Path) -> str:
    """A command that answers as JSON, too."""
    return next_command.command(verb, "--json", *arguments)


def step(
    do: str,
    says: str,
    command: str | None = None,
    decides: str = "",
    *,
    mistake: str | None = None,
    again: bool = False,
) -> Next:
    """A next step: `do` is "run", "fix" or "record" (do what it `says`, then run the command), or "stop".

    `again`: the recording is to be made anew before the command, as it was made.
    """
    return {"do": do, "says": says, "mistake": mistake, "again": again, "command": command, "decides": decides}


def after_recording(golden: str, path: Path, model: str | Path | None = None) -> Next:
    """Behind a recording that was written: check it."""
    return step("run", "", command("check", *_model(model), golden, path), CHECKED)


def after_check(verdicts: Verdicts, model: str | Path | None = None) -> Next:
    """Behind a verdict on one recording: diagnose where numbers differ, record what is not there."""
    name = verdicts.case.name
    if not verdicts.exit_code:
        lacks = f"; not compared: {', '.join(verdicts.lacks)}" if verdicts.lacks else ""
        more = f"; {ITSELF}" if ITSELF in verdicts.notes else lacks
        return step("stop", f"{name}: {verdicts.word}, nothing is left to do in this case{more}")
    if verdicts.word == "partial":
        last = " at every position; of an engine that has the last alone --partial asks for no more"
        says = f"record {', '.join(verdicts.lacks)} of {name}, too{last if verdicts.last_alone else ''}"
        return step("record", says, _again(verdicts, model), CHECKED, again=True)
    if verdicts.word != "divergence":
        return step("stop", f"{name}: {verdicts.word}; there is no mistake to fix, and this is no parity: say so")
    if any(not tap.passed for tap in verdicts.taps):
        return step("run", "", _again(verdicts, model, "diagnose"), DIAGNOSED)
    return _by_problem(verdicts, model)


def after_diagnosis(diagnosis: Diagnosis, model: str | Path | None = None, golden: Recording | None = None) -> Next:
    """Behind a diagnosis: one fix, of the first place that is wrong; a tap to record where no mistake fits.

    Numbers in few bits are no mistake of a candidate that declares them; where that is all, a person decides. With the
    `golden`, a run that is right in another arithmetic is measured by a golden in that.
    """
    verdicts = diagnosis.verdicts
    if verdicts.word != "divergence":
        return after_check(verdicts, model)
    check, anew = _again(verdicts, model), _again(verdicts, model, "diagnose")
    if lossy := lossy_alone(diagnosis):
        return _to_decide(lossy, verdicts, check)
    faults = [fault for fault in diagnosis.faults if not declared(fault, diagnosis)]
    if (named := _of_a_mistake(faults, check)) is not None:
        return named
    rounded = bool(faults) and all(scatters(fault, diagnosis) for fault in faults)
    for parameter in _wrong_parameters(diagnosis, rounded=rounded):
        return _fix(None, [f"parameter {parameter.name}"], f"it {parameter.says}; {FIX}", check)
    for fault in faults:
        if fault.record:
            says = f"{_open(fault.fault.place)}: {_UNKNOWN}; {fault.record}"
            return step("record", says, anew, DIAGNOSED, again=True)
        if scatters(fault, diagnosis):
            says = f"{_open(fault.fault.place)}: {_SCATTERS}"
            return step("record", says, anew, DIAGNOSED, again=True)
        lines = [*(f"not as {line}" for line in fault.source[:1]), *(finding.says for finding in fault.numbers[:3])]
        return _fix(None, [fault.fault.place], "; ".join([_UNKNOWN, *lines]), check)
    for misplaced in diagnosis.misplaced:
        says = f"{_open(misplaced.place)}: {misplaced.short}; {misplaced.fix}"
        return step("record", says, check, CHECKED, again=True)
    return _right_alone(diagnosis, model, golden)


def _of_a_mistake(faults: Sequence[Explained], check: str) -> Next | None:
    """Behind the first place whose mistake is known, or else is named by its numbers; None where none is."""
    for fault in (fault for fault in faults if fault.is_known):
        first = fault.explanations[0]
        is_line = first.name.startswith("edit.") and not first.fix.startswith(FIX)
        line = f"the reference has {first.fix}" if is_line else first.fix
        return _fix(first.name, [first.place], f"it {first.says}; {line}", check)
    for fault in (fault for fault in faults if fault.misread):
        return _fix(fault.numbers[0].name, [fault.fault.place], f"{fault.numbers[0].says}; {fault.misread}", check)
    return None


def _right_alone(diagnosis: Diagnosis, model: str | Path | None, golden: Recording | None) -> Next:
    """Behind a run that is off though no op is: a golden in its own arithmetic, else what its first problem says."""
    verdicts = diagnosis.verdicts
    if golden is not None and diagnosis.meaning and (dtype := other_type(verdicts, golden.run.arithmetic)):
        return _by_another_golden(verdicts, golden, dtype, model, diagnosis.meaning[0])
    return _by_problem(verdicts, model, "; ".join(diagnosis.meaning))


def _wrong_parameters(diagnosis: Diagnosis, *, rounded: bool) -> Iterator[ParameterFault]:
    """Parameters that are to be mended: of none the form is why its tap is another one, or what rounding makes."""
    elsewhere = {misplaced.place for misplaced in diagnosis.misplaced}
    for parameter in diagnosis.parameters:
        foreign = rounded and parameter.says.startswith(FOREIGN)
        if not foreign and pattern_of(parameter.name.rpartition(".")[0]) not in elsewhere:
            yield parameter


def _by_another_golden(verdicts: Verdicts, golden: Recording, dtype: str, model: str | Path | None, says: str) -> Next:
    """Behind a run that is right in another arithmetic: a golden of the same inputs in that, and a check by it."""
    again = recapture(golden, dtype, model)
    if again is None:
        return step("stop", f"{verdicts.case.name}: {says}; check by that golden then")
    capture, out = again
    options = ["--partial"] * verdicts.partial
    then = command("check", *options, *_model(model), out, verdicts.candidate)
    return step("run", says, f"{capture} >&2 && {then}", CHECKED)


def _to_decide(lossy: str, verdicts: Verdicts, check: str) -> Next:
    """Behind a lossy engine of which nothing else is wrong: what it costs, and a person who decides."""
    says, costs = f"{verdicts.case.name}: {lossy}", verdicts.predictions
    if costs is None and "logits" in verdicts.lacks:
        more = "record the logits, too: KL and ranks say what it costs"
        return step("record", f"{says}; {more}", check, CHECKED, again=True)
    figures = "it predicts nothing to be told by"
    if costs is not None:
        figures = (
            f"KL {costs.mean_kl:.3g} nats a token, worst {costs.worst.kl:.3g}; best token the same at "
            f"{100 * costs.top_1:.4g} %; worst rank of the golden's best: {costs.worst_rank}"
        )
    return step("stop", f"{says}; read `predictions` ({figures}) and decide; this is no parity: say so")


def after_texts(diagnosis: TokenDiagnosis, model: str | Path | None = None) -> Next:
    """Behind the diagnosis of a tokenizer: one fix, of the first stage that is wrong."""
    verdicts = diagnosis.verdicts
    for fault in diagnosis.faults:
        says = fault.explanations[0].fix if fault.name else _UNKNOWN
        return _fix(fault.name or None, [f"the stage {fault.stage}"], says, _again(verdicts, model))
    return _by_problem(verdicts, model) if verdicts.problems else after_check(verdicts, model)


def after_own_texts(verdicts: Verdicts, tokenizer: str, out: Path | None = None) -> Next:
    """Behind our own tokenizer's verdict on a user's texts, of which `out` has Hugging Face's recording."""
    if verdicts.exit_code:
        problem = verdicts.problems[0]
        says = f"{problem.where}: {problem.rule}; our tokenizer does otherwise, and nothing of yours was judged"
        return step("stop", f"{says}: report the text")
    if out is None:
        return step("stop", "our tokenizer does as Hugging Face's; with --out, yours is judged by the same texts")
    asked = command("record", out, "--impl", "MODULE:FACTORY", "--model", tokenizer)
    return step("record", "record your own tokenizer, with MODULE:FACTORY as its runner", asked, CHECKED)


def after_folder(folder: Folder, levels: Sequence[str] = ()) -> Next:
    """Behind the verdicts on a folder, of which these `levels` were asked for."""
    options = ["--partial"] if any(verdicts.partial for verdicts in folder.results) else []
    check = command("check", *options, *(word for level in levels for word in ("--level", level)), folder.path)
    for error in folder.refused:
        return step("record", f"{error.where}: {error.rule}; {error.next_step}", check, CHECKED, again=True)
    if any(verdicts.word == "divergence" for verdicts in folder.red):
        return step("run", "", command("diagnose", *options, folder.path), DIAGNOSED)
    partial = [verdicts for verdicts in folder.red if verdicts.word == "partial"]
    lacks = [f"{verdicts.case.name}: {', '.join(verdicts.lacks)}" for verdicts in partial]
    lacks += folder.missing if folder.required or not folder.results else []
    if lacks:
        more = f"; and {len(lacks) - _SHOWN} more" if len(lacks) > _SHOWN else ""
        return step("record", f"record also {'; '.join(lacks[:_SHOWN])}{more}", check, CHECKED, again=True)
    if folder.red:
        words = sorted({verdicts.word for verdicts in folder.red})
        return step("stop", f"{', '.join(words)}; there is no mistake to fix, and this is no parity: say so")
    following = None if folder.required else next_level(folder)
    more = f"; the next level is {following.level}, which needs {', '.join(following.missing)}" if following else ""
    return step("stop", f"parity in all of the {len(folder.results)} cases{more}")


def after_folder_diagnosis(diagnosis: FolderDiagnosis) -> Next:
    """Behind the diagnosis of a folder: the one fix that most red cases need."""
    judged = after_folder(diagnosis.folder)
    if judged["do"] != "run":
        return judged
    options = ["--partial"] if any(verdicts.partial for verdicts in diagnosis.folder.results) else []
    check = command("check", *options, diagnosis.folder.path)
    if diagnosis.mistakes and all(mistake.lossy for mistake in diagnosis.mistakes):
        says = "; ".join(f"{', '.join(mistake.cases)}: {mistake.sentence}" for mistake in diagnosis.mistakes)
        return step("stop", f"{says}; there is no mistake to fix, and this is no parity: say so")
    for mistake in (mistake for mistake in diagnosis.mistakes if not mistake.lossy):
        if mistake.name:
            return _fix(mistake.name, mistake.places, mistake.fix, check)
        for note in mistake.record_next:
            anew = command("diagnose", *options, diagnosis.folder.path)
            return step("record", f"{', '.join(note.cases)}: {note.says}", anew, DIAGNOSED, again=True)
        says = "; ".join([mistake.sentence, *(note.says for note in mistake.findings[:3])])
        return _fix(None, mistake.cases, says, check)
    return _by_problem(next(verdicts for verdicts in diagnosis.folder.red if verdicts.problems), None)


def after_by_golden(
    judged: ByGolden, following: Sequence[tuple[str, Next]], verb: str, model: str | None = None
) -> Next:
    """Behind a folder judged by one golden: the first step of its red files, in order, that is more than to stop."""
    again = command(verb, *_model(model), judged.golden, judged.path)
    for file, then in following:
        if then["do"] != "stop":
            return then | {"says": f"{file}: {then['says']}" if then["says"] else ""}
    for error in judged.refused:
        return step("record", f"{error.where}: {error.rule}; {error.next_step}", again, CHECKED, again=True)
    stopped = "; ".join(f"{file}: {then['says']}" for file, then in following)
    return step("stop", stopped or f"parity in all of the {len(judged.results)} recordings")


def whole_answer(verdicts: Verdicts, model: str | None, verb: str) -> str:
    """The command whose answer says everything of one recording."""
    return _again(verdicts, model, verb)


def after_conformance(
    result: Conformance,
    fresh: Fresh | None,
    surprises: Sequence[str],
    expected: Collection[str],
    asking: str,
    out: Path | None,
) -> Next:
    """Behind a port's answers, of which `expected` fail; `asking` asks it again, its answers into another folder."""
    failed = [name for name in result.failed if name not in expected]
    judged = () if result.folder is None else [verdicts.case.name for verdicts in result.folder.results]
    for name in failed:
        if name not in judged:
            return _fix(None, [name], result.failed[name], asking, again=False)
    if failed and out is not None:
        return step("run", "", command("diagnose", out), DIAGNOSED)
    if failed:
        says = "give --out DIR, an empty folder, so that the answers can be diagnosed"
        return step("record", says, asking, "with --out, its own next is to diagnose DIR")
    if fresh and fresh.failure:
        return _after_failure(fresh.failure, asking)
    for line in (*result.answers.remarks, *(fresh.remarks if fresh else ()), *surprises):
        return _fix(None, ["the port, or what is known of it"], line, asking, again=False)
    if result.stopped or (fresh and fresh.stopped):
        return step("run", "it was interrupted", asking, CHECKED)
    if result.folder is None:
        return step("record", "nothing was judged: the port supports none of the cases", asking, CHECKED)
    return step("stop", f"{len(result.folder.results)} cases are as they should be")


def _after_failure(failure: Failure, asking: str) -> Next:
    """Behind a fresh case that fails."""
    if failure.answer is None:
        return _fix(None, [failure.name], failure.message, asking, again=False)
    model = _model(failure.checkpoint)
    return step("run", "", command("diagnose", *model, failure.golden, failure.answer), DIAGNOSED)


def _model(path: str | Path | None) -> list[str]:
    return ["--model", str(path)] if path else []


def _fix(mistake: str | None, places: Sequence[str], fix: str, check: str, *, again: bool = True) -> Next:
    return step("fix", f"at {', '.join(map(_open, places))}: {fix}", check, CHECKED, mistake=mistake, again=again)


def _by_problem(verdicts: Verdicts, model: str | Path | None, more: str = "") -> Next:
    """What the first problem of a recording asks for."""
    problem = verdicts.problems[0]
    asked = "" if problem.next_step.startswith("qwen3-parity diagnose ") else problem.next_step
    says = "; ".join(filter(None, (f"{problem.where}: {problem.rule}", more, asked)))
    return step("record", says, _again(verdicts, model), CHECKED, again=True)


def _again(verdicts: Verdicts, model: str | Path | None, verb: str = "check") -> str:
    """A verb on the same recording, judged by the same golden, checkpoint and rule."""
    committed = Path(verdicts.golden).is_relative_to(GOLDEN_ROOT / "cases")
    options = [*(["--partial"] if verdicts.partial else []), *_model(model)]
    return command(verb, *options, *([] if committed else [verdicts.golden]), verdicts.candidate)


def _open(place: str) -> str:
    return place.replace("{layer}", "*")
