"""One file per tab. Each makes HTML from what is known, and changes nothing."""
