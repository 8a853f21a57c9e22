"""A folder of recordings, judged in one go."""
