"""Mechanical mutants: our implementation's source with one small change each, made by rules that know no model.

Nobody chose them, so what they show about the judge is independent of whoever wrote its hypotheses.
"""
