"""`python -m lpplusplus`, where the command `lpp` is not on the path."""

from .cli import main

if __name__ == "__main__":
    main()
