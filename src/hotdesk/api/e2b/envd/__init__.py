"""envd, the service E2B's SDKs use at port 49983 of a sandbox: programs, files, watches. It runs outside the desk."""
