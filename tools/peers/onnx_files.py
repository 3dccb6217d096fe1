"""Runs files that Muster exported as ONNX in onnxruntime, and compares the numbers. ./dev check onnx calls it.

    python tools/peers/onnx_files.py FOLDER

FOLDER has a folder for each model, as onnx_program writes it: model.onnx, and ROWS.safetensors with the tensors "in/NAME"
and "out/SIGNATURE/NAME". Numbers may differ by 1e-5 of the largest number of their array, or of 1 if that is larger. Ends with 1 if
a model differs.
"""

import json
import pathlib
import sys

import numpy as np
import onnx
import onnxruntime
from exported_numbers import batches, difference, tensors

def session_of(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def differences(folder):
    path = folder / "model.onnx"
    onnx.checker.check_model(str(path), full_check=True)
    session = session_of(path)
    signatures = json.loads(session.get_modelmeta().custom_metadata_map["muster.signatures"])
    for rows, arrays in batches(folder):
        given = {name[3:]: array for name, array in arrays.items() if name.startswith("in/")}
        for signature, about in signatures.items():
            for name, output in about["outputs"].items():
                expected = arrays[f"out/{signature}/{name}"]
                got = session.run([output], {i.name: given[i.name] for i in session.get_inputs()})[0]
                text = difference(expected, np.asarray(got))
                if text:
                    yield f"{signature}/{name} of {rows} rows: {text}"


def cannot_run(folder, error):
    """onnxruntime's CPU kernels lack convolutions of float64, which ONNX has."""
    doubles = any(array.dtype == np.float64 for file in folder.glob("[0-9]*.safetensors") for _, array in tensors(file))
    return doubles and "Could not find an implementation for Conv" in str(error)


def main():
    root = pathlib.Path(sys.argv[1])
    differ = count = lacking = 0
    for path in sorted(root.rglob("model.onnx")):
        folder = path.parent
        count += 1
        try:
            lines = list(differences(folder))
        except Exception as error:  # whatever the checker or the runtime says is the result
            if cannot_run(folder, error):
                lacking += 1
                continue
            lines = [f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"]
        differ += bool(lines)
        for line in lines:
            print("DIFFERS", f"{folder.relative_to(root)}:", line)
    print(
        f"onnxruntime {onnxruntime.__version__}: {count} models, {differ} differ; "
        f"{lacking} have convolutions of float64, which it cannot run"
    )
    return 1 if differ or lacking == count else 0


if __name__ == "__main__":
    sys.exit(main())
