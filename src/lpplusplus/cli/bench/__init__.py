"""`lpp bench`: the fair benchmark, one file per command."""
