"""`python -m detection.levels`."""

from detection.levels.command import levels

levels(prog_name="python -m detection.levels")
