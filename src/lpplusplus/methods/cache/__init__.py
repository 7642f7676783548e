"""What Tip-Adapter and its two trained versions share: the cache, and the search of its weight and sharpness."""
