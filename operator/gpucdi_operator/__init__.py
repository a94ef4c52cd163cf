"""The cluster side of gpucdi.

Owns: what the cluster shows of the nodes' statuses (the condition on Nodes, the explaining Events
on Pods, requests to the agents). Must not know: how a node is observed or repaired. kopf is met in
``adapters`` alone; everything else is plain async code over ``gpucdi_kube``.
"""
