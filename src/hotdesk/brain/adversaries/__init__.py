"""Hostile and incompetent brains: shipped, so that everyone can test what a desk withstands."""
