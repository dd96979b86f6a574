"""Programs that look at files inside a clean desk, by the desk's own Python and office. Nothing here runs outside."""
