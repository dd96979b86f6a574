"""Desks as pods of a Kubernetes cluster."""
