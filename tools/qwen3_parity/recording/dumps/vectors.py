"""Committed cases for people without this package: safetensors and JSON lines, laid out as a data set of the hub."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from qwen3_golden import GOLDEN_ROOT, Array, ParityError, Recording, Tensor, pb, place, read
from qwen3_golden.whole import write_whole
from qwen3_parity.judge.budgets import headroom
from qwen3_parity.judge.match import is_input
from qwen3_parity.judge.scope import Scope
from qwen3_parity.judge.tap_verdict import is_exact, op_of
from qwen3_parity.recording.dumps.write_dump import WORDS, write_safetensors
from qwen3_reference.checkpoints.stored import Stored, read_directory
from qwen3_reference.graph.scope import counted

CARD = "vectors.md"
_NUMBERS = ("rms", "max", "row", "head")
Arrays = dict[str, tuple[pb.DType, Array]]


def write_vectors(names: Sequence[str], out: Path) -> list[Path]:
    """Write the cases of these names into the folder `out`; the files, the card last. Equal goldens, equal bytes.

    A folder of cases is a safetensors file and its index. Cases of texts and of the format have no numbers to compare
    and are left out. Raises `ParityError` where nothing is left, and for a folder that holds anything.
    """
    goldens = [golden for name in sorted(names) if _has_numbers((golden := _golden(name)).case)]
    if not goldens or (out.exists() and (not out.is_dir() or any(out.iterdir()))):
        raise ParityError(
            out if goldens else ", ".join(names) or "the cases",
            "vectors are of cases with numbers, and go into a folder of their own",
            expected="a folder that is empty or not there, and cases that are neither of texts nor of the format",
            got="a folder that holds something" if goldens else "none",
            next_step="give another folder, or a glob as 'decoder/*'",
        )
    groups = dict[str, list[Recording]]()
    for golden in goldens:
        groups.setdefault(golden.case.name.partition("/")[0], []).append(golden)
    files = list[Path]()
    for group, members in groups.items():
        arrays, rows = Arrays(), list[dict[str, Any]]()
        for golden in members:
            rows += _rows(golden, f"vectors/{group}.safetensors", arrays)
        files += _pair(out / "vectors" / group, arrays, rows)
    checkpoints = sorted({(part.name, GOLDEN_ROOT / "checkpoints" / part.name) for part in _checkpoints(goldens)})
    weights, rows = Arrays(), list[dict[str, Any]]()
    for name, directory in checkpoints:
        rows += _weights(name, read_directory(directory), weights)
    files += _pair(out / "weights", weights, rows) if rows else []
    configs = [{"checkpoint": name, "config": (path / "config.json").read_text("utf-8")} for name, path in checkpoints]
    for name, lines in (("cases", map(_case, goldens)), ("checkpoints", configs)):
        files.append(_lines(out / f"{name}.jsonl", lines))
    card = Template((Path(__file__).parent / CARD).read_text(encoding="utf-8"))
    files.append(out / "README.md")
    write_whole(
        files[-1], card.substitute(cases=len(goldens), group=min(groups, key=lambda name: (name != "op", name)))
    )
    return files


def _has_numbers(case: pb.Case) -> bool:
    """Whether there is anything to compute; `read` is the op of a reader of our own files."""
    return case.mode not in (pb.TOKENIZATION, pb.PLUMBING) and case.op != "read"


def _golden(name: str) -> Recording:
    return read(GOLDEN_ROOT / "cases" / f"{name}.pb", digests=True)


def _checkpoints(goldens: Iterable[Recording]) -> Iterator[pb.Checkpoint]:
    return (part for golden in goldens for part in golden.case.checkpoint)


def _case(golden: Recording) -> dict[str, Any]:
    """What was run, without its numbers."""
    case = golden.case
    return {
        "case": case.name,
        "mode": pb.Mode.Name(case.mode),
        "description": case.description,
        "op": case.op,
        "attributes": [{"name": pair.key, "value": pair.value} for pair in case.attributes],
        "checkpoints": [{"role": part.role, "name": part.name} for part in case.checkpoint],
        "steps": list(case.steps),
        "after": case.after,
        "rows": case.rows,
        "arithmetic": pb.Arithmetic.Name(golden.run.arithmetic),
        "exposes": list(case.exposes),
        "digest": golden.digest.hex(),
    }


def _rows(golden: Recording, file: str, arrays: Arrays) -> Iterator[dict[str, Any]]:
    """The index of a golden's tensors, which are put into `arrays`."""
    scope = Scope(golden)
    for item in golden:
        name = f"{golden.case.name}/{item.info.step}/{item.info.name}"
        arrays[name] = _wide(item.info.dtype, item.values() if item.info.dtype == pb.BF16 else item.array)
        is_given = is_input(item, golden.case.mode)
        judged = None if is_given else _judged(item, golden, scope)
        if judged is not None:
            arrays[f"{name}/judged"] = pb.BOOL, judged
        yield {
            "case": golden.case.name,
            "tap": item.info.name,
            "step": item.info.step,
            "role": "given" if is_given else "computed",
            "op": item.info.op,
            "shape": list(item.array.shape),
            "axes": list(item.info.axes),
            "dtype": WORDS[item.info.dtype],
            **_budget(item, golden, is_given=is_given),
            "digest": _digest(arrays[name][1]),
            "file": file,
            "tensor": name,
            "judged": None if judged is None else f"{name}/judged",
        }


def _budget(item: Tensor, golden: Recording, *, is_given: bool) -> dict[str, Any]:
    """Whether a tap is compared bit for bit, and else its floors and headroom; neither for what is not compared."""
    by_graph = golden.case.mode == pb.GRAPH
    exact = not is_given and not by_graph and is_exact(item, op_of(item, golden), golden.case.mode)
    floors = {key: _numbers(getattr(item.info, key)) if item.info.HasField(key) else None for key in _FLOORS}
    allowed = headroom("drawn") if by_graph else headroom("run", op_of(item, golden))
    is_judged = not is_given and not exact and floors["floor"] is not None
    if not is_judged:
        floors = dict.fromkeys(_FLOORS)
    return {"exact": exact, **floors, "headroom": _numbers(allowed) if is_judged else None}


_FLOORS = ("floor", "own_angles_floor")


def _numbers(source: object) -> dict[str, float]:
    return {key: float(getattr(source, key)) for key in _NUMBERS}


def _judged(item: Tensor, golden: Recording, scope: Scope) -> Array | None:
    """The elements that count, bool of the tap's shape; None for all of them."""
    if golden.case.mode == pb.GRAPH:
        counts: Array | None = counted(item, golden)
    else:
        counts = scope.judged(item, place(item.info.name, golden.case.config.num_hidden_layers))
    return None if counts is None or counts.all() else np.array(np.broadcast_to(counts, item.array.shape))


def _weights(checkpoint: str, tensors: Mapping[str, Stored], arrays: Arrays) -> Iterator[dict[str, Any]]:
    for name, stored in sorted(tensors.items()):
        key = f"{checkpoint}/{name}"
        arrays[key] = _wide(stored.dtype, stored.float32() if stored.dtype == pb.BF16 else stored.bits)
        yield {
            "checkpoint": checkpoint,
            "name": name,
            "shape": list(stored.bits.shape),
            "dtype": WORDS[stored.dtype],
            "digest": _digest(arrays[key][1]),
            "file": "weights.safetensors",
            "tensor": key,
        }


def _wide(dtype: pb.DType, array: Array) -> tuple[pb.DType, Array]:
    """Half precision as float32, which every language reads, and every value exactly."""
    return (pb.F32, array.astype(np.float32)) if dtype in (pb.BF16, pb.F16) else (dtype, array)


def _digest(array: Array) -> str:
    return sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def _pair(path: Path, arrays: Arrays, rows: Iterable[Mapping[str, Any]]) -> list[Path]:
    content, tensors = BytesIO(), path.with_suffix(".safetensors")
    write_safetensors(content, arrays, {})
    write_whole(tensors, content.getvalue())
    return [tensors, _lines(path.with_suffix(".jsonl"), rows)]


def _lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    write_whole(path, "".join(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows))
    return path
