"""Desks as Kubernetes pods: an agent without privileges creates them, and their guests connect to it.

`manifest.py` describes a desk's pod, `listener.py` accepts guests, `streams.py` carries their connections,
`cluster.py` is the seam to a cluster and `kubernetes_api.py` its implementation, `fleet.py` has the pods of an agent,
`keeper.py` answers what a keeper answers, `runtime.py` is the `Runtime`. `preflight.py` judges whether the cluster's
network keeps desks in, and `pool_trust.py` lets `fleet.py` create no pod unless it does.
"""
