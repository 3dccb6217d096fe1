"""Runs one model of each kind in every program that takes an export, and prints the numbers. ./dev check onnx calls it.

    python tools/peers/exported_kinds.py FOLDER --tensorflow=PYTHON --node=FOLDER

FOLDER has a folder for each model, as `onnx_program kinds` writes it: model.onnx, saved_model.pb, and the batches that
exported_numbers.py describes. Each program's cell has the first number of the signature serving_default, for the first
row, and the largest difference from Muster over all outputs and rows. A difference may be 1e-5 of the largest number of
its array, or of 1 if that is larger. Ends with 1 if a model differs.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

import numpy as np
from exported_numbers import batches, difference

SIGNATURE = "serving_default"


def given(arrays):
    return {name[3:]: array for name, array in arrays.items() if name.startswith("in/")}


def expected(arrays):
    begin = f"out/{SIGNATURE}/"
    return {name[len(begin):]: array for name, array in sorted(arrays.items()) if name.startswith(begin)}  # fmt: skip


def as_json(results):
    """The arrays by name, without texts: TensorFlow gives the names of classes too."""
    return {name: {"shape": list(array.shape), "numbers": array.ravel().tolist()}
            for name, array in results.items() if array.dtype.kind in "bfiu"}  # fmt: skip


def folders(root, file):
    return {str(path.parent.relative_to(root)): path.parent for path in sorted(root.rglob(file))}


def onnxruntime_answers(root):
    import onnxruntime
    from onnx_files import session_of

    answers = {}
    for name, folder in folders(root, "model.onnx").items():
        session = session_of(folder / "model.onnx")
        outputs = [output.name for output in session.get_outputs()]
        answers[name] = {rows: as_json(dict(zip(outputs, session.run(None, given(arrays)))))
                         for rows, arrays in batches(folder)}  # fmt: skip
    return {"version": onnxruntime.__version__, "answers": answers}


def tensorflow_answers(root):
    import tensorflow as tf

    answers = {}
    for name, folder in folders(root, "saved_model.pb").items():
        signatures = tf.saved_model.load(str(folder)).signatures
        # The plain name may take tf.Examples.
        run = signatures["tensors:" + SIGNATURE if "tensors:" + SIGNATURE in signatures else SIGNATURE]
        answers[name] = {rows: as_json({output: tensor.numpy() for output, tensor in run(
            **{key: tf.constant(array) for key, array in given(arrays).items()}).items()})
            for rows, arrays in batches(folder)}  # fmt: skip
    return {"version": tf.__version__, "answers": answers}


def asked(*command):
    quiet = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=quiet, check=False)
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def cell(folder, answers):
    """The text of a cell, and what differs."""
    first, largest, texts = "", 0.0, []
    for rows, arrays in batches(folder):
        for name, wanted in expected(arrays).items():
            answer = answers[rows][name]
            got = np.array(answer["numbers"]).astype(wanted.dtype).reshape(answer["shape"])
            text = difference(wanted, got)
            if text:
                texts.append(f"{name} of {rows} rows: {text}")
            elif wanted.size:
                largest = max(largest, float(np.abs(wanted.astype(np.float64) - got.astype(np.float64)).max()))
            first = first or f"{got.ravel()[0]:.6g}"
    return f"{first} ({largest:.0e})" if largest else f"{first} (0)", texts


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--tensorflow")
    parser.add_argument("--node", type=pathlib.Path)
    parser.add_argument("--answers", action="store_true", help="print TensorFlow's answers as JSON")
    options = parser.parse_args()
    if options.answers:
        print(json.dumps(tensorflow_answers(options.folder)))
        return 0
    programs = {
        "onnxruntime, Python": onnxruntime_answers(options.folder),
        "onnxruntime, Node": asked("node", options.node / "exported_numbers.mjs", options.folder),
        "TensorFlow": asked(options.tensorflow, __file__, options.folder, "--answers"),
    }
    print("| model | Muster |", " | ".join(f"{name} {about['version']}" for name, about in programs.items()), "|")
    print("|---" * (2 + len(programs)) + "|")
    differ = 0
    models = folders(options.folder, "model.onnx")
    for name, folder in models.items():
        first = next(iter(expected(next(iter(batches(folder)))[1]).values()))
        cells, texts = [f"{first.ravel()[0]:.6g}"], []
        for program, about in programs.items():
            text, wrong = cell(folder, about["answers"][name])
            cells.append(text)
            texts += [f"{program}: {line}" for line in wrong]
        print("|", name.split("/")[0], "|", " | ".join(cells), "|", flush=True)
        for line in texts:
            print("DIFFERS", f"{name}:", line)
        differ += bool(texts)
    print(f"{len(models)} models, {differ} differ")
    return 1 if differ or not models else 0


if __name__ == "__main__":
    sys.exit(main())
