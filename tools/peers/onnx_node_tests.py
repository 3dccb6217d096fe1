"""Writes the node tests of the Python package onnx as files. ./dev check onnx calls it.

    python tools/peers/onnx_node_tests.py FOLDER

Each test becomes a folder: model.onnx, and arrays.npz with its inputs "in_0", ..., the outputs "out_0", ... that ONNX
expects, and the tolerances "rtol" and "atol". An optional input that is not given has no array. Tests whose values are
no arrays of numpy's own dtypes (sequences, optional values, texts, bfloat16, float8, int4) have the file other_values.
"""

import pathlib
import sys

import numpy as np
import onnx
from onnx.backend.test.case.node import collect_testcases


def is_plain(value):
    return isinstance(value, (np.ndarray, np.generic)) and np.asarray(value).dtype.kind in "biuf"


def main():
    root = pathlib.Path(sys.argv[1])
    cases = collect_testcases("")
    for case in cases:
        folder = root / case.name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "model.onnx").write_bytes(case.model.SerializeToString())
        inputs, outputs = case.data_sets[0]
        if not all(is_plain(value) for value in [*inputs, *outputs]):
            (folder / "other_values").touch()
            continue
        arrays = {f"in_{i}": np.asarray(value) for i, value in enumerate(inputs)}
        arrays |= {f"out_{i}": np.asarray(value) for i, value in enumerate(outputs)}
        np.savez(folder / "arrays.npz", rtol=np.float64(case.rtol), atol=np.float64(case.atol), **arrays)
    print(f"onnx {onnx.__version__}: {len(cases)} node tests")


if __name__ == "__main__":
    main()
