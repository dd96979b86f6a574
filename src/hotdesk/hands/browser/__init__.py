"""A desk's browser: its tools, and the results of its reader."""
