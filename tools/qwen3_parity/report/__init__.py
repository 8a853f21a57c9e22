"""Verdicts and diagnoses for people and machines: terminal, HTML, JSON."""
