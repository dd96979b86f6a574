"""The walls between a desk and the host, one package each."""
