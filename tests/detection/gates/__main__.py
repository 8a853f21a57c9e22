"""`python -m detection.gates`."""

from detection.gates.command import gates

gates(prog_name="python -m detection.gates")
