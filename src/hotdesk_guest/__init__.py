"""The first process of every desk. Standard library only. The host does not trust it."""
