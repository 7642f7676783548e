"""From image files to the arrays that an image encoder wants: decoding and preprocessing. Knows nothing of models."""
