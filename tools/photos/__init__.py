"""Building and measuring of the encoder of photos that the package ships; not a part of the installed package."""
