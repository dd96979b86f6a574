"""Servers on loopback that speak the model providers' protocols, and refuse what a provider would refuse."""
