"""E2B's volumes: those of a tenant (`registry.py`), and their files (`content.py`), read by confined processes."""
