"""`python -m detection.unseen`."""

from detection.unseen.command import unseen

unseen(prog_name="python -m detection.unseen")
