"""The command line: ``anabranch``, or ``python -m anabranch``."""

import sys

from ._native import run


def main() -> None:
    """Does what the command line says, and exits with its code."""
    sys.exit(run(["anabranch", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
