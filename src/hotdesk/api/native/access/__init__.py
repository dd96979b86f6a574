"""Who may use the native API: keys, and browsers that signed in with one."""
