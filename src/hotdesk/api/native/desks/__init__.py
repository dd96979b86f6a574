"""Desks over the native API: programs, files, terminals, screens."""
