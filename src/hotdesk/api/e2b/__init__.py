"""The API of E2B's own SDKs: control plane, envd, files, port traffic. `docs/guide/e2b.md` lists the differences."""
