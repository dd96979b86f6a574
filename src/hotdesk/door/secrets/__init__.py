"""Secrets put into requests, and kept out of whatever comes back to a desk."""
