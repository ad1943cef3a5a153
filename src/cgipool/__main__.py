"""`python -m cgipool`: the command line without an installed script."""

import sys

from cgipool.cli import main

if __name__ == "__main__":  # worker processes import this module again
    sys.exit(main())
