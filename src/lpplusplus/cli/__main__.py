"""`python -m lpplusplus.cli`, where the command `lpp` is not on the path."""

from . import main

if __name__ == "__main__":
    main()
