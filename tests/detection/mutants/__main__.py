"""`python -m detection.mutants`."""

from detection.mutants.command import mutants

mutants(prog_name="python -m detection.mutants")
