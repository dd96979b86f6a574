"""A job's record: its events, sealed papers, lock, and the views folded from its events."""
