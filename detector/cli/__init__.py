"""The commands: `detector run`, `learn`, `replay`, `incidents` and the others; one file per group of them.

Commands that ask a running daemon do so over its HTTP interface; the rest work on files. Exit codes are those
of sysexits.h, and what a script reads goes to standard output, everything else to standard error.
"""
