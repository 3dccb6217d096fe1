"""The numbers that exported models must compute, for scripts that run such models in other programs.

A model's folder has ROWS.safetensors for some numbers of rows, with the tensors "in/NAME" and "out/SIGNATURE/NAME", as
onnx_program writes them.
"""

import json

import numpy as np

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


def batches(folder):
    """The numbers of rows with the tensors by name."""
    files = sorted(folder.glob("[0-9]*.safetensors"), key=lambda file: int(file.stem))
    assert files, f"{folder} has no batches"
    for file in files:
        yield file.stem, dict(tensors(file))
