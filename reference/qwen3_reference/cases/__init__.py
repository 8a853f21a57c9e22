"""What is recorded, as data."""
