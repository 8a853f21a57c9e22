"""`python -m qwen3_reference OUT [--only GLOB] [--exclude GLOB]`: record the reference's cases into OUT/cases."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

import torch

from qwen3_golden import GOLDEN_ROOT, ParityError
from qwen3_reference.capture.classic_record import record_classic
from qwen3_reference.capture.record import record
from qwen3_reference.capture.record_op import record_op
from qwen3_reference.cases.classic import CLASSIC_CASES
from qwen3_reference.cases.models import MODEL_CASES
from qwen3_reference.cases.networks import CASES
from qwen3_reference.cases.op_cases import op_cases
from qwen3_reference.graph.committed import record_model
from qwen3_reference.tokenization.cases import TOKENIZATION_CASES
from qwen3_reference.tokenization.recorded import record_tokenization


def main(arguments: list[str]) -> int:
    """Record every case whose name matches; 0 when all are written, 2 when none matches or a checkpoint is unusable."""
    parser = argparse.ArgumentParser(prog="python -m qwen3_reference", description=__doc__)
    parser.add_argument("out", type=Path, help="folder that receives cases/<folder>/<name>.pb")
    parser.add_argument("--only", action="append", metavar="GLOB", help="cases to record, as 'encdec/*'; repeatable")
    parser.add_argument("--exclude", action="append", metavar="GLOB", default=[], help="and to leave out")
    parser.add_argument("--checkpoints", type=Path, default=GOLDEN_ROOT / "checkpoints", help="where checkpoints stand")
    parser.add_argument("--tokenizers", type=Path, default=GOLDEN_ROOT / "tokenizers", help="where tokenizers stand")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    write: dict[str, Callable[[Path], None]] = {f"op/{op.name}": partial(record_op, op) for op in op_cases()}
    write |= {case.name: partial(record, case, options.checkpoints) for case in CASES}
    write |= {case.name: partial(record_classic, case, options.checkpoints) for case in CLASSIC_CASES}
    write |= {case.name: partial(record_model, case, options.checkpoints) for case in MODEL_CASES}
    write |= {case.name: partial(record_tokenization, case, options.tokenizers) for case in TOKENIZATION_CASES}
    taken = [name for name in write if any(fnmatchcase(name, glob) for glob in options.only or ["*"])]
    chosen = [name for name in taken if not any(fnmatchcase(name, glob) for glob in options.exclude)]
    try:
        for name in chosen:
            write[name](options.out / "cases" / f"{name}.pb")
    except ParityError as error:
        print(error, file=sys.stderr)
        return 2
    if not chosen:
        print(f"no case is left by --only {options.only} --exclude {options.exclude}", file=sys.stderr)
        return 2
    print(f"{len(chosen)} cases recorded in {options.out / 'cases'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
