"""Benchmarks of lpplusplus: a synthetic test bed, the released recipe, and honest clocks."""
