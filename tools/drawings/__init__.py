"""Training and measuring of the embedded demonstration model; not a part of the installed package."""
