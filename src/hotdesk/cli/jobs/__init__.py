"""Subcommands for jobs, from a brief to a result."""
