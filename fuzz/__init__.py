"""Fuzzers for everything that cgipool reads: `python -m fuzz`, or `make fuzz`.

seeds.py writes sound files of every kind, mutate.py damages them, kinds.py says which command reads them and what it
may answer, and runner.py runs the cases in worker processes with limits on time and memory. A case is determined by
(seed, kind, number). crash.py lets a command die at every file event and runs it again.
"""
