"""Authentication of the native API: API keys, and browsers that signed in with one."""
