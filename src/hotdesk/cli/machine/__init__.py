"""Subcommands for this machine, and what happened on it."""
