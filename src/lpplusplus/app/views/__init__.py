"""One file per tab. Each makes HTML from the current state, and changes nothing."""
