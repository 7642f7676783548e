"""`lpp app`: a page on this machine where a person builds, corrects and exports a classifier."""
