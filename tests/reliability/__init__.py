"""Hostile testing: programs for long runs (`PYTHONPATH=tests python -m reliability.fuzzing`), and short ones as tests.

docs/explanation/reliability.md has the commands and what they found.
"""
