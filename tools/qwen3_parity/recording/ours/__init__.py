"""Our own encoder–decoder as an implementation under test."""
