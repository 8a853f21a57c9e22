"""Every named mistake of the library seeds itself: it is caught, blamed on its own op, and named.

That the library is sound, and complete in itself, is all that this shows. It says nothing of bugs that nobody thought
of: how many of those are named is counted by `detection.mutants` and `detection.mechanical`.
"""
