"""Records engines on the committed cases of a causal Qwen3, or Llama, and judges them: `make engines`.

python examples/engines/judge.py OUT ADAPTER...    OUT/ADAPTER.jsonl, one line a case; recordings beside it
python examples/engines/judge.py OUT               the table of all that is there, to standard output
"""

from __future__ import annotations

import importlib
import json
import shutil
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from qwen3_golden import GOLDEN_ROOT, pb, read
from qwen3_parity.checkpoints.weights import weights_of
from qwen3_parity.diagnosis import diagnose
from qwen3_parity.judge.features import features
from qwen3_parity.judge.spoken import spoken
from qwen3_parity.recording.capture import capture, plan
from qwen3_parity.recording.record import record

CHECKPOINTS = GOLDEN_ROOT / "checkpoints"
PROMPTS = [[5, 6, 7, 40, 12, 30, 1, 33, 4, 11], [8, 3, 21, 9, 17, 2, 25, 6, 14, 10]]
HEAD = """# Engines, as `make engines` judged them

| engine | case | taps | of its budget | verdict |
|---|---|---|---|---|"""


def cases(adapter: Any) -> list[Path]:
    """The committed float32 goldens of a causal Qwen3, and of Llama where the adapter has it."""
    folders = ["decoder", "long", "training", *["llama"] * ("llama" in adapter.HAS)]
    files = sorted(path for folder in folders for path in (GOLDEN_ROOT / "cases" / folder).glob("*.pb"))
    goldens = ((path, read(path)) for path in files)
    return [p for p, one in goldens if one.case.mode == pb.CAUSAL and one.run.arithmetic == pb.ARITHMETIC_F32]


def captured(out: Path) -> list[tuple[Path, Path]]:
    """Goldens that no committed case stands for, each made once, with the folder of their checkpoints.

    The greedy ids of two checkpoints, for engines that show nothing else; windows in every layer, without padding.
    """
    windows = out / "captured" / "windows-everywhere"
    if not windows.exists():
        shutil.copytree(CHECKPOINTS / "even-window", windows)
        config = json.loads((windows / "config.json").read_text()) | {"max_window_layers": 0}
        (windows / "config.json").write_text(json.dumps(config))
    files = []
    for checkpoint, new in ((CHECKPOINTS / "qwen3-8b", 12), (CHECKPOINTS / "tied-decoder", 12), (windows, 0)):
        path = out / "captured" / f"{checkpoint.name}.pb"
        if not path.exists():
            capture(plan(checkpoint, [], PROMPTS, taps=["logits"] if new else [], generate=new), path)
        files.append((path, checkpoint.parent))
    return files


def engine_of(adapter: Any) -> str:
    """Its package and version, and which of several ways the adapter runs it."""
    return " ".join([adapter.PACKAGE, version(adapter.PACKAGE), getattr(adapter, "VARIANT", "")]).strip()


def judged(adapter: Any, path: Path, out: Path, checkpoints: Path = CHECKPOINTS) -> dict[str, Any]:
    """One row of the table: what was compared, the worst share of a budget, the verdict and every op blamed."""
    golden = read(path)
    row: dict[str, Any] = {"engine": engine_of(adapter), "case": golden.case.name}
    lacks = [feature for feature in features(golden) if feature not in adapter.HAS]
    lacks += adapter.lacks(golden.case) if hasattr(adapter, "lacks") else []
    if lacks:
        return row | {"lacks": lacks}
    file = out / f"{adapter.__name__}-{golden.case.name.replace('/', '-')}.pb"
    record(golden, file, adapter.factory, checkpoints=checkpoints)
    diagnosis = diagnose(golden, read(file), weights_of(golden, checkpoints))
    verdicts = diagnosis.verdicts
    blamed = [f"{fault.fault.place}: {fault.name or 'no known mistake'}" for fault in diagnosis.faults]
    blamed += [f"{parameter.name}: not loaded as stored" for parameter in diagnosis.parameters]
    without = dict.fromkeys(tap.partition(" ")[0] for tap in verdicts.no_results)
    word = f"{verdicts.word}: no {', '.join(without)}" if verdicts.word == "partial" else verdicts.word
    row |= {"compared": verdicts.compared, "of": verdicts.of, "word": word, "blamed": spoken(blamed, golden.case)}
    return row | {"share": verdicts.worst.share if verdicts.worst else 0.0, "problems": len(verdicts.problems)}


def table(rows: list[dict[str, Any]]) -> str:
    """Every engine's cases; those that it lacks a feature for are said, in one line an engine."""
    lines, lacking = [HEAD], dict[str, list[str]]()
    for row in rows:
        if "lacks" in row:
            lacking.setdefault(row["engine"], []).append(f"{row['case']} ({', '.join(row['lacks'])})")
            continue
        verdict = "; ".join([row["word"], *row["blamed"]])
        taps = f"{row['compared']} of {row['of']}"
        lines.append(f"| {row['engine']} | {row['case']} | {taps} | {row['share']:.2g} × | {verdict} |")
    said = [f"- {engine}: {'; '.join(names)}" for engine, names in lacking.items()]
    return "\n".join([*lines, "", "Cases with a feature that an engine's adapter does not have:", "", *said])


def main(out: Path, names: list[str]) -> None:
    for name in names:
        adapter = importlib.import_module(name)
        rows = [judged(adapter, path, out) for path in cases(adapter)]
        rows += [judged(adapter, path, out, checkpoints) for path, checkpoints in captured(out)]
        (out / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    if not names:
        files = sorted(out.glob("*.jsonl"))
        print(table([json.loads(line) for file in files for line in file.read_text().splitlines()]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
