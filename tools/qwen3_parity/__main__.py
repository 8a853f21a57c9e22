"""`python -m qwen3_parity` is the command `qwen3-parity`."""

from qwen3_parity.cli import main

main()
