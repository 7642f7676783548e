"""`python -m lpplusplus.cli`, where the command `lpp` is not on the path."""

from . import main

main()
