"""What runs inside every desk, as its first process. Standard library only; it is not trusted."""
