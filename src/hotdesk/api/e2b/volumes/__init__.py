"""E2B's volumes: which a tenant has (`registry.py`), and their files (`content.py`), read by confined processes."""
