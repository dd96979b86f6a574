"""Egress policy: rules in, a decision out. Pure, but for presets, which read this machine's configuration."""
