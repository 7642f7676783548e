"""The fair benchmark: data sets, tasks, runs and reports."""
