"""An implementation, or the reference, run on a case: recordings."""
