"""pandas.read_csv with its default C engine, on one thread, as a contestant of a benchmark
(benchmarks/support/step_pacer.h says how contestants talk)."""
import sys

import pandas

from turns import take_turns

BLOCK = 1024  # rows the contestants compare

if __name__ == "__main__":
    take_turns(lambda: pandas.read_csv(sys.argv[1]).iloc[:BLOCK, 0].sum())
