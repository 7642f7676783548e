"""What all rooms stand on: the contract of a classifier, checks, arrays, threads, files."""
