"""`python -m qwen3_reference.vocabulary OUT [--corpus DIR]`: OUT/tiny, OUT/tiny-sentinels, always the same bytes."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from qwen3_golden import GOLDEN_ROOT, ParityError
from qwen3_reference.vocabulary.tokenizers_made import write_both


def main(arguments: list[str]) -> int:
    """Train and write both directories; 0 when done, 2 when the corpus is unusable or a directory exists."""
    parser = argparse.ArgumentParser(prog="python -m qwen3_reference.vocabulary", description=__doc__)
    parser.add_argument("out", type=Path, help="folder that receives tiny/ and tiny-sentinels/")
    parser.add_argument("--corpus", type=Path, default=GOLDEN_ROOT / "tokenizers" / "corpus", help="texts, *.txt")
    options = parser.parse_args(arguments)
    try:
        write_both(options.corpus, options.out)
    except ParityError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"written: {options.out / 'tiny'}, {options.out / 'tiny-sentinels'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
