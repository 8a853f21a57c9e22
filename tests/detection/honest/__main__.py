"""`python -m detection.honest`."""

from detection.honest.command import budgets

budgets(prog_name="python -m detection.honest")
