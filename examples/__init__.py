"""Whole programs, one per reader: photos, arrays, an encoder or a method of one's own, a classifier behind HTTP."""
