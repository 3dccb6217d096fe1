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

DTYPES = {
    "F32": np.float32, "F64": np.float64, "F16": np.float16, "I64": np.int64, "I32": np.int32, "I16": np.int16,
    "I8": np.int8, "U8": np.uint8, "BOOL": np.bool_,
}  # fmt: skip


def tensors(path):
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    for name, about in header.items():
        begin, end = (8 + size + place for place in about["data_offsets"])
        yield name, np.frombuffer(data[begin:end], DTYPES[about["dtype"]]).reshape(about["shape"])


def session_of(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def difference(expected, got):
    if expected.dtype != got.dtype or expected.shape != got.shape:
        return f"{got.dtype}{list(got.shape)} rather than {expected.dtype}{list(expected.shape)}"
    if expected.size == 0:
        return ""
    a, b = expected.astype(np.float64), got.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if same.all():
        return ""
    apart = np.abs(a - b)[~same].max()
    finite = a[np.isfinite(a)]
    allowed = 1e-5 * max(1.0, np.abs(finite).max() if finite.size else 1.0)
    return "" if apart <= allowed else f"by {apart:.3g}, allowed is {allowed:.3g}"


def differences(folder):
    path = folder / "model.onnx"
    onnx.checker.check_model(str(path), full_check=True)
    session = session_of(path)
    signatures = json.loads(session.get_modelmeta().custom_metadata_map["muster.signatures"])
    batches = sorted(folder.glob("[0-9]*.safetensors"), key=lambda file: int(file.stem))
    assert batches, f"{folder} has no batches"
    for batch in batches:
        arrays = dict(tensors(batch))
        given = {name[3:]: array for name, array in arrays.items() if name.startswith("in/")}
        for signature, about in signatures.items():
            for name, output in about["outputs"].items():
                expected = arrays[f"out/{signature}/{name}"]
                got = session.run([output], {i.name: given[i.name] for i in session.get_inputs()})[0]
                text = difference(expected, np.asarray(got))
                if text:
                    yield f"{signature}/{name} of {batch.stem} rows: {text}"


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
