"""Subcommands for desks."""
