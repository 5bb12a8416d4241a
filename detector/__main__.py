"""`python -m detector` is the command `detector`."""

from detector.cli import main

main()
