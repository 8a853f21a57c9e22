"""What the numbers of a linear say of its weight, and those of a gradient of the terms that it sums."""
