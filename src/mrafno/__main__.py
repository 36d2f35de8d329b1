"""``python -m mrafno``: the command line."""

from mrafno.cli.__main__ import main

if __name__ == "__main__":
    main()
