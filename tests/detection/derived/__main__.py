"""`python -m detection.derived`."""

from detection.derived.command import derived

derived(prog_name="python -m detection.derived")
