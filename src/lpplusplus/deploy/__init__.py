"""A trained classifier where its owner needs it: other programs, other machines, other people."""
