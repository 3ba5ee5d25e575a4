"""The command line: ``anabranch``, or ``python -m anabranch``."""

import sys

from ._native import run


def main() -> None:
    """Runs the command line, and exits with its exit code."""
    sys.exit(run(["anabranch", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
