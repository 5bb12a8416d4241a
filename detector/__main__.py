"""`python -m detector` is the command `detector`."""

from detector.cli.main import main

main()
