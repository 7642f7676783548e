"""Training and measuring of the demonstration model of drawings; not a part of the installed package."""
