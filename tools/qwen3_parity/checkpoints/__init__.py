"""Weights and tokenizers as files: read for the judge, exported for ports, imported again."""
