"""`python -m detection.mechanical`."""

from detection.mechanical.command import mechanical

mechanical(prog_name="python -m detection.mechanical")
