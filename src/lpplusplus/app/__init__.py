"""A page on this machine: drop photos, name classes, watch it learn."""
