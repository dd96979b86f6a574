"""A job's record: its events, sealed papers, lock, and what is folded from them to show, resume or replay it."""
