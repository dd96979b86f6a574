"""The surface E2B's own SDKs use: control plane, envd, files, port traffic. `docs/guide/e2b.md` says what differs."""
