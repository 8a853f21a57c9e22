"""Families of transformers judged by their own graphs: Hugging Face's model run honestly, and with seeded mistakes."""
