"""The cluster lab: Kubernetes with two nodes on one machine, built from Debian's sources, for `make test-cluster`."""
