"""onnxruntime on one thread, as a contestant of benchmarks/onnx_benchmark.cc: onnx_turns.py MODEL ROWS OUTPUT."""
import sys

import numpy as np
import onnxruntime

from turns import take_turns


def input_of(about, rows):
    shape = [rows, *about.shape[1:]]
    place = np.arange(np.prod(shape))
    values = place % 7 if about.type == "tensor(int64)" else np.sin(place * 0.37).astype(np.float32)
    return values.reshape(shape)


def main():
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
    batch = {about.name: input_of(about, int(sys.argv[2])) for about in session.get_inputs()}
    outputs = [output.name for output in session.get_outputs()]
    total = float(session.run(outputs, batch)[outputs.index(sys.argv[3])].astype(np.float64).sum())

    def ask():
        session.run(outputs, batch)
        return total

    take_turns(ask)


if __name__ == "__main__":
    main()
