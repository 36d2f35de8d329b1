"""``python -m mrafno.cli``."""

from mrafno.cli import main

if __name__ == "__main__":
    main()
