"""`python -m qwen3_reference OUT [--only GLOB] [--exclude GLOB]`: record the reference's cases into OUT/cases."""

from __future__ import annotations

import argparse
import sys
from fnmatch import fnmatchcase
from pathlib import Path

import torch

from qwen3_golden import GOLDEN_ROOT, ParityError
from qwen3_reference.capture.classic_record import record_classic
from qwen3_reference.capture.record import record
from qwen3_reference.capture.record_op import record_op
from qwen3_reference.cases.classic import CLASSIC_CASES
from qwen3_reference.cases.networks import CASES
from qwen3_reference.cases.op_cases import op_cases
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
    written = 0

    def chosen(name: str) -> bool:
        taken = any(fnmatchcase(name, glob) for glob in options.only or ["*"])
        return taken and not any(fnmatchcase(name, glob) for glob in options.exclude)

    try:
        for op in op_cases():
            if chosen(f"op/{op.name}"):
                record_op(op, options.out / "cases" / "op" / f"{op.name}.pb")
                written += 1
        for definition in CASES:
            if chosen(definition.name):
                record(definition, options.checkpoints, options.out / "cases" / f"{definition.name}.pb")
                written += 1
        for classic in CLASSIC_CASES:
            if chosen(classic.name):
                record_classic(classic, options.checkpoints, options.out / "cases" / f"{classic.name}.pb")
                written += 1
        for texts in TOKENIZATION_CASES:
            if chosen(texts.name):
                record_tokenization(texts, options.tokenizers, options.out / "cases" / f"{texts.name}.pb")
                written += 1
    except ParityError as error:
        print(error, file=sys.stderr)
        return 2
    if not written:
        print(f"no case is left by --only {options.only} --exclude {options.exclude}", file=sys.stderr)
        return 2
    print(f"{written} cases recorded in {options.out / 'cases'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
