"""Mistakes of people who port a model, each written into the source text of Hugging Face's own modeling file.

Nobody who wrote a row had read what is said of it: the expected words stand in its file before anything was answered.
"""
