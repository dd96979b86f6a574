"""Egress policy: rules in, a decision out. Pure, except for presets, which read this machine's configuration."""
