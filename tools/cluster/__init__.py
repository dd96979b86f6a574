"""The cluster lab: a Kubernetes of two nodes on one machine, built from Debian's sources, for `make test-cluster`."""
