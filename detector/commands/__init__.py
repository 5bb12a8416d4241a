"""The commands, one file per group. Modules import little: each command loads what it needs when it runs."""
