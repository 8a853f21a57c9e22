"""Gates that others use, beside this judge, on the bugs that are seeded here and on honest runs."""
