"""`python -m detection.devices`."""

from detection.devices.command import devices

devices(prog_name="python -m detection.devices")
