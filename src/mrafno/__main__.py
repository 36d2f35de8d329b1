"""``python -m mrafno``: the command line."""

from mrafno.cli import main

if __name__ == "__main__":
    main()
