"""Checkpoints: the tiny committed ones, their making, and the reading of any."""
