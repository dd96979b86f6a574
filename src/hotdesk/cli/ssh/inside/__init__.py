"""Programs that run inside a desk."""
