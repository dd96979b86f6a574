"""Programs that inspect files inside a clean desk, with the desk's own Python and office suite. None runs on the
host."""
