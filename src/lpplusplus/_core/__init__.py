"""The base of all other packages here: the contract of a classifier, checks, arrays, threads, files."""
