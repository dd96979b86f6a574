"""Desks as Kubernetes pods: an agent without privileges creates them, and their guests connect to it.

`manifest.py` describes a desk's pod, `listener.py` accepts guests, `streams.py` carries their connections,
`cluster_api.py` calls the API server, `keeper.py` answers what a keeper answers, `runtime.py` is the `Runtime`.
"""
