"""envd, as E2B's SDKs find it at port 49983 of a sandbox: programs, files, watches. It runs outside the desk."""
