"""`python -m detection.kernels`."""

from detection.kernels.command import kernels

kernels(prog_name="python -m detection.kernels")
