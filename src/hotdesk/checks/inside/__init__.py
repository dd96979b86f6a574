"""Programs that inspect files inside a clean desk, with its own Python and office suite. None runs on the host."""
