"""A desk's browser: the tools, and what the reader says of its pages."""
