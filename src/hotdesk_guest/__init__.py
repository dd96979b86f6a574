"""The first process of every desk. Standard library only; it is not trusted."""
