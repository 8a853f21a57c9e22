"""The judge put to the test: bugs that somebody seeded, changes that a machine made, variations that are honest.

`python -m detection.mutants`, `.mechanical`, `.derived` and `.honest` run in the folder tests, or anywhere with that
folder on PYTHONPATH. No wheel holds this package, and nothing outside of tests imports it.
"""
