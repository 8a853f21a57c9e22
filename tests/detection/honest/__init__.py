"""Honest variations: other ways to compute the same network. All of them must pass, with nobody blamed."""
