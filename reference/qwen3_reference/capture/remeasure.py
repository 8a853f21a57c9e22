"""The committed goldens with the floors that they lack.

`python -m qwen3_reference.capture.remeasure OUT [--only GLOB]` writes them.

Hugging Face is not run: a golden's values, and the floors that it has, stay as they were recorded, on whatever machine.
What is measured, from the values and the checkpoint, are the floors of runs by angles of their own (`own_angles`).
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from tempfile import TemporaryDirectory

from qwen3_golden import GOLDEN_ROOT, ParityError, Recording, Tensor, pb, read, write
from qwen3_golden.dtypes import ARITHMETIC
from qwen3_reference.capture.make_golden import with_floors
from qwen3_reference.checkpoints.weights import load_weights
from qwen3_reference.floors.measure import measure
from qwen3_reference.floors.own_angles import rope_tables

_DTYPES = {arithmetic: dtype for dtype, arithmetic in ARITHMETIC.items()}
_NETWORKS = (pb.ENCODER, pb.CAUSAL, pb.ENCODER_DECODER, pb.BLOCK)


def remeasured(golden: Recording, checkpoints: Path) -> Recording:
    """The same recording with own_angles_floor where it is wider; `checkpoints` holds the case's checkpoint folders."""
    folders = {checkpoint.role: checkpoints / checkpoint.name for checkpoint in golden.case.checkpoint}
    weights = load_weights(folders.get("encoder"), folders.get("decoder"), _DTYPES[golden.run.arithmetic])
    known = {item.key: item.info.floor for item in golden if item.info.HasField("floor")}
    with TemporaryDirectory() as folder:
        measured = measure(golden, weights, rope_tables(golden), Path(folder), known=known)
    tensors = []
    for item in golden:
        info = pb.Tensor.FromString(item.info.SerializeToString())
        info.ClearField("own_angles_floor")
        tensors.append(with_floors(Tensor(info, item.array), measured))
    return replace(golden, tensors=tensors)


def main(arguments: list[str]) -> int:
    """Write the committed goldens of networks with their floors; 2 when none matches or one is broken."""
    parser = argparse.ArgumentParser(prog="python -m qwen3_reference.capture.remeasure", description=__doc__)
    parser.add_argument("out", type=Path, help="folder that receives cases/<folder>/<name>.pb")
    parser.add_argument("--only", default="*", help="glob over case names, as 'long/*'")
    options = parser.parse_args(arguments)
    written = 0
    try:
        for path in sorted((GOLDEN_ROOT / "cases").rglob("*.pb")):
            name = str(path.relative_to(GOLDEN_ROOT / "cases").with_suffix(""))
            golden = read(path, digests=True)
            if golden.case.mode in _NETWORKS and fnmatchcase(name, options.only):
                write(options.out / "cases" / f"{name}.pb", remeasured(golden, GOLDEN_ROOT / "checkpoints"))
                written += 1
    except ParityError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{written} goldens measured again in {options.out / 'cases'}")
    return 0 if written else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
