"""`python -m detection.blind`."""

from detection.blind.command import blind

blind(prog_name="python -m detection.blind")
