"""The text of a line of the reference, from the installed transformers where its version is the golden's."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Collection, Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from qwen3_golden import Recording
from qwen3_spec.graph import Line

_PLAIN = re.compile(r"\w+\.py")
_LONG = 160


def text_of(line: Line, golden: Recording) -> str:
    """A line of source without its indentation; empty where the installed transformers is another or has none."""
    lines = _of_the_golden(line.file, golden)
    return lines[line.number - 1].strip()[:_LONG] if 0 < line.number <= len(lines) else ""


def line_of(file: str, code: str, golden: Recording, function: str = "", after: str = "") -> Line | None:
    """The first line with this `code`; None where there is none, or where `text_of` is empty.

    With a `function`, in the functions of that name alone; with `after`, behind the first line that has it.
    """
    reached = not after
    for number, text in enumerate(_of_the_golden(file, golden), 1):
        if reached and code in text:
            around = [name for first, last, name in _functions(file) if first <= number <= last]
            if not function or function in around:
                return Line(file, number, around[-1] if around else "")
        reached = reached or after in text
    return None


def call_of(name: str, around: Iterable[Line], golden: Recording) -> Line | None:
    """The line that calls a module by its attribute's name, in a function that has one of the lines `around`.

    Of several the first in a branch that ran, as far as the lines tell. None where no such line is there, or where
    `text_of` is empty.
    """
    for file, numbers in _by_file(around).items():
        lines = _of_the_golden(file, golden)
        for first, last, function in _functions(file) if lines else ():
            if any(first <= number <= last for number in numbers):
                calls = [number for number in range(first, last + 1) if f"self.{name}(" in lines[number - 1]]
                ran = [number for number in calls if _may_have_run(number, numbers, _branches(file))]
                if calls:
                    return Line(file, (ran or calls)[0], function)
    return None


def called_beside(name: str, beside: Iterable[str], files: Iterable[str], golden: Recording) -> Line | None:
    """The line that calls a module in the only function of some files that calls all the modules `beside` it, too."""
    calls = {f"self.{each}(" for each in (name, *beside)}
    every = list[Line]()
    for file in sorted(files):
        lines = _of_the_golden(file, golden)
        for first, last, function in _functions(file) if lines else ():
            body = lines[first - 1 : last]
            if all(any(call in text for text in body) for call in calls):
                number = next(number for number, text in enumerate(body, first) if f"self.{name}(" in text)
                every.append(Line(file, number, function))
    return every[0] if len(every) == 1 and len(calls) > 1 else None


def _may_have_run(number: int, ran: Collection[int], branches: Iterable[tuple[int, int]]) -> bool:
    """Whether each branch that a line stands in has a line that `ran`."""
    around = (part for part in branches if part[0] <= number <= part[1])
    return all(any(first <= each <= last for each in ran) for first, last in around)


def assigned(line: Line, golden: Recording, place: int | None = None) -> str:
    """The variable that the statement at a line gives a value to, with the line where its function does so more often.

    Of several the one at a `place`. Empty where none is asked for, for no variable, and where `text_of` is empty.
    """
    if not 0 < line.number <= len(_of_the_golden(line.file, golden)):
        return ""
    names, often = _assigned(line.file).get(line.number, ((), frozenset[str]()))
    at = 0 if len(names) == 1 else place
    name = names[at] if at is not None and 0 <= at < len(names) else ""
    return f"{name} (line {line.number})" if name in often else name


def operand(line: Line, operator: type[ast.operator], slot: int, golden: Recording) -> str:
    """The variable at a place of the only sum, product or quotient of a line; empty for what is more than a name."""
    if not 0 < line.number <= len(_of_the_golden(line.file, golden)):
        return ""
    every = [node for node in _operations(line.file).get(line.number, ()) if isinstance(node.op, operator)]
    side = (every[0].left, every[0].right)[slot] if len(every) == 1 else None
    return side.id if isinstance(side, ast.Name) else ""


def _by_file(lines: Iterable[Line]) -> dict[str, set[int]]:
    numbers = dict[str, set[int]]()
    for line in lines:
        numbers.setdefault(line.file, set()).add(line.number)
    return numbers


def _of_the_golden(file: str, golden: Recording) -> tuple[str, ...]:
    stated = {pair.key: pair.value for pair in golden.provenance.versions}
    return _lines(file) if stated.get("transformers") == _installed() and _PLAIN.fullmatch(file) else ()


@cache
def _installed() -> str:
    try:
        return version("transformers")
    except PackageNotFoundError:
        return "none"


@cache
def _lines(file: str) -> tuple[str, ...]:
    """The lines of a file of transformers, found by its name; none where several have it."""
    try:
        package = find_spec("transformers")
    except ModuleNotFoundError:  # whoever hides a package says so
        return ()
    if package is None or not package.submodule_search_locations:
        return ()
    root = Path(package.submodule_search_locations[0])
    model = root / "models" / file.removesuffix(".py").removeprefix("modeling_") / file
    paths = [path for path in (model, root / file, root / "integrations" / file) if path.is_file()]
    paths = paths or [*root.glob(f"models/*/{file}")]
    return tuple(paths[0].read_text(encoding="utf-8").splitlines()) if len(paths) == 1 else ()


@cache
def _functions(file: str) -> tuple[tuple[int, int, str], ...]:
    """First line, last line and name of every function of a file of transformers, an outer one before those in it."""
    return tuple((node.lineno, node.end_lineno or node.lineno, node.name) for node in ast.walk(_parsed(file))
                 if isinstance(node, ast.FunctionDef))  # fmt: skip


@cache
def _branches(file: str) -> tuple[tuple[int, int], ...]:
    """First and last line of what each `if` and each `else` of a file runs."""
    bodies = (body for part in ast.walk(_parsed(file)) if isinstance(part, ast.If) for body in (part.body, part.orelse))
    return tuple((body[0].lineno, body[-1].end_lineno or body[-1].lineno) for body in bodies if body)


@cache
def _parsed(file: str) -> ast.Module:
    return ast.parse("\n".join(_lines(file)))


@cache
def _assigned(file: str) -> dict[int, tuple[tuple[str, ...], frozenset[str]]]:
    """The variables of each line's statement, and those that its function gives a value to more than once."""
    names = dict[int, tuple[tuple[str, ...], frozenset[str]]]()
    for function in ast.walk(_parsed(file)):
        if isinstance(function, ast.FunctionDef):
            names |= _assigned_in(function)
    return names


def _assigned_in(function: ast.FunctionDef) -> dict[int, tuple[tuple[str, ...], frozenset[str]]]:
    every = (part for part in ast.walk(function) if isinstance(part, ast.stmt))
    statements = [(part, targets) for part in every if any(targets := _targets(part))]
    alone = Counter(targets[0] for _, targets in statements if len(targets) == 1)
    alone.update(argument.arg for argument in function.args.args)
    together = alone + Counter(name for _, targets in statements if len(targets) > 1 for name in targets if name)
    # What is taken apart first, and shaped behind that, is called by its name alone where it is shaped.
    often, anew = (frozenset(name for name, times in each.items() if times > 1) for each in (alone, together))
    return {
        number: (targets, often if len(targets) == 1 else anew)
        for part, targets in statements
        for number in range(part.lineno, (part.end_lineno or part.lineno) + 1)
    }


def _targets(part: ast.stmt) -> tuple[str, ...]:
    """The variables that a statement gives values to, empty for what is none; nothing where it does so in a chain."""
    if isinstance(part, ast.Assign):
        targets = part.targets
    else:
        targets = [part.target] if isinstance(part, ast.AnnAssign | ast.AugAssign) else []
    if len(targets) != 1:
        return ()
    every = targets[0].elts if isinstance(targets[0], ast.Tuple) else targets
    return tuple(each.id if isinstance(each, ast.Name) else "" for each in every)


@cache
def _operations(file: str) -> dict[int, list[ast.BinOp]]:
    """Sums, products and quotients by the line that they begin at."""
    every = dict[int, list[ast.BinOp]]()
    for node in ast.walk(_parsed(file)):
        if isinstance(node, ast.BinOp):
            every.setdefault(node.lineno, []).append(node)
    return every


def place_of(line: Line) -> str:
    """A line as messages name it: "modeling_qwen3_moe.py:297 in forward"."""
    return f"{line.file}:{line.number} in {line.function}"
