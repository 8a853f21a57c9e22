"""Bugs seeded in our tokenizer, by stage: `catalogue` has them all."""
