"""`python -m gnomon` is the same as `gnomon`."""

from gnomon.cli import main

main()
