"""Runs the command line: python -m dsv4."""

import sys

from dsv4._cli.main import main

if __name__ == "__main__":
    sys.exit(main())
