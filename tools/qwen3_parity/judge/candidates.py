"""A folder of candidates: recordings that somebody made elsewhere, found by the cases that they say they ran."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from shlex import quote

from qwen3_golden import GOLDEN_ROOT, ParityError, read, refusals

_refused = refusals("give the folder that holds the recordings, *.pb at any depth")


def golden_names(root: Path = GOLDEN_ROOT) -> dict[str, Path]:
    """Every committed golden by the name of its case, in order, those of the format alone (`plumbing/*`) too.

    Each stands in its file of that name, so that none of them is read.
    """
    cases = root / "cases"
    return {path.relative_to(cases).with_suffix("").as_posix(): path for path in sorted(cases.rglob("*.pb"))}


def recordings(folder: Path, goldens: Mapping[str, Path]) -> tuple[dict[str, Path], list[ParityError]]:
    """The recordings below `folder` by the name of their case, whatever their files are called, and what is refused: a
    file that cannot be read, is of no golden's case, or is the second of its case, and a link that leads elsewhere.
    Files of one case that is no golden's are one refusal.

    Raises `ParityError` when there is no such folder, and when it has no recording.
    """
    if not folder.is_dir():
        got = "a file" if folder.exists() else "nothing there"
        raise _refused(folder, "the folder of candidates cannot be used", "a folder", got)
    files, refused = files_of(folder)
    if not (files or refused):
        raise _refused(folder, "there is no recording to judge", "*.pb files, at any depth", "none")
    paths, strange = dict[str, Path](), dict[str, list[Path]]()
    for path in files:
        try:
            name = read(path).case.name
        except ParityError as error:
            refused.append(error)
            continue
        if name not in goldens:
            strange.setdefault(name, []).append(path)
        elif name in paths:
            got = f"this one and {paths[name]}"
            refused.append(_refused(path, "two recordings are of one case", f"one of {name}", got))
        else:
            paths[name] = path
    return paths, [*refused, *(_of_no_golden(name, files, folder, goldens) for name, files in strange.items())]


def _of_no_golden(name: str, files: Sequence[Path], folder: Path, goldens: Mapping[str, Path]) -> ParityError:
    near = get_close_matches(name, goldens, n=3, cutoff=0.5)
    more = f", here and in {len(files) - 1} more" if len(files) > 1 else ""
    return ParityError(
        files[0],
        "this recording is of no golden's case",
        expected=f"one of {len(goldens)} cases{', most like it: ' * bool(near)}{', '.join(near)}",
        got=f"case.name {name!a}{more}",
        next_step=f"put a golden of your own before the folder: qwen3-parity check GOLDEN {quote(str(folder))}",
    )


def files_of(folder: Path) -> tuple[list[Path], list[ParityError]]:
    """The files *.pb below `folder`, in capitals too, in order, and what is refused: a link that leads elsewhere,
    to a folder or a recording, which is not followed, and a folder that cannot be opened.

    A link to a folder within `folder` is passed over: what it leads to is found in its own place.
    """
    files, refused = list[Path](), list[ParityError]()
    root = folder.resolve()

    def unreadable(error: OSError) -> None:
        refused.append(_refused(error.filename, "a folder cannot be opened", "one that can be read", error.strerror))

    for place, folders, names in os.walk(folder, onerror=unreadable):
        linked = [path for name in folders if (path := Path(place, name)).is_symlink()]
        here = [path for name in names if (path := Path(place, name)).suffix.lower() == ".pb"]
        for path in (*linked, *here):
            target = path.resolve()
            if not target.is_relative_to(root):
                rule = "a link leads out of the folder of candidates, and is not followed"
                refused.append(_refused(path, rule, "recordings in the folder itself", f"a link to {target}"))
            elif path not in linked:
                files.append(path)
    return sorted(files), sorted(refused, key=lambda error: error.where)


def candidates(folder: Path, goldens: Mapping[str, Path]) -> dict[str, Path]:
    """As `recordings`; raises `ParityError` for the first that is refused, too."""
    paths, refused = recordings(folder, goldens)
    if refused:
        raise refused[0]
    return paths
