"""E2B's code interpreter at port 49999 of a sandbox. Runs inside the desk, with the image's own Python."""
