"""Runs models that Muster exported as SavedModels in TensorFlow, and compares the numbers. ./dev check onnx calls it.

    python tools/peers/saved_models.py FOLDER [--tools]

FOLDER has a folder for each model, as onnx_program writes it: saved_model.pb with its variables, the batches that
exported_numbers.py describes, and requests as tf.Examples and by feature (tests/onnx/exported_requests.h). Numbers may
differ by 1e-5 of the largest number of their array, or of 1 if that is larger. With --tools, saved_model_cli shows each model too, and TensorFlow Lite runs those of LITE. Ends with 1 if a model differs.
"""

import json
import os
import pathlib
import subprocess
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import tensorflow as tf  # noqa: E402
from exported_numbers import batches, difference, tensors  # noqa: E402


def compared(arrays, signature_of, given, what):
    """Calls the signatures with arguments by name, and compares the outputs."""
    expected = [name.split("/", 2)[1:] for name in arrays if name.startswith("out/")]
    for signature in sorted({signature for signature, _ in expected}):
        function = signature_of(signature)
        results = function(**given(function))
        for name in (name for other, name in expected if other == signature):
            text = difference(arrays[f"out/{signature}/{name}"], results[name].numpy())
            if text:
                yield f"{signature}/{name} of {what}: {text}"


def arguments_of(function):
    """The arguments of a signature, and what they are."""
    return function.structured_input_signature[1]


def request_differences(folder, loaded):
    """Compares raw tf.Examples, and the same requests by feature."""
    file = folder / "examples.tfrecord"
    if file.exists():
        examples = tf.constant([record.numpy() for record in tf.data.TFRecordDataset(str(file))])
        arrays = dict(tensors(folder / "examples.safetensors"))
        # As tf.estimator names the only argument of its signatures.
        yield from compared(
            arrays, loaded.signatures.__getitem__, lambda function: {next(iter(arguments_of(function))): examples},
            "tf.Examples",
        )
    file = folder / "features.json"
    if not file.exists():
        return
    features = json.loads(file.read_text())

    def signature_of(name):
        signatures = loaded.signatures
        return signatures["features:" + name if "features:" + name in signatures else name]

    # Columns that cross features in two orders have no such signature next to tf.Examples.
    if folder.name != "two_orders":
        arrays = dict(tensors(folder / "features.safetensors"))
        yield from compared(
            arrays, signature_of,
            lambda function: {
                name: tf.constant(features[name], about.dtype) for name, about in arguments_of(function).items()
            },
            "features",
        )


def differences(folder):
    loaded = tf.saved_model.load(str(folder))

    def signature_of(name):
        return loaded.signatures["tensors:" + name if "tensors:" + name in loaded.signatures else name]

    for rows, arrays in batches(folder):
        given = {name[3:]: tf.constant(array) for name, array in arrays.items() if name.startswith("in/")}
        yield from compared(arrays, signature_of, lambda function, given=given: given, f"{rows} rows")
    yield from request_differences(folder, loaded)


# Models that are converted for TensorFlow Lite too.
LITE = ("dnn_regressor", "resnet18", "wide_and_deep")


def lite_differences(folder):
    # TensorFlow Lite has no tf.Examples.
    names = tf.saved_model.load(str(folder)).signatures
    signature = "tensors:serving_default" if "tensors:serving_default" in names else "serving_default"
    converter = tf.lite.TFLiteConverter.from_saved_model(str(folder), signature_keys=[signature])
    interpreter = tf.lite.Interpreter(model_content=converter.convert())
    run = interpreter.get_signature_runner(signature)
    for rows, arrays in batches(folder):
        results = run(**{name[3:]: array for name, array in arrays.items() if name.startswith("in/")})
        for name, got in results.items():
            if name == "classes":  # texts, which Muster has in the signature
                continue
            text = difference(arrays[f"out/serving_default/{name}"], got)
            if text:
                yield f"TensorFlow Lite: {name} of {rows} rows: {text}"


def show(folder):
    cli = pathlib.Path(sys.executable).with_name("saved_model_cli")
    done = subprocess.run([cli, "show", "--dir", folder, "--all"], capture_output=True, text=True, check=False)
    if done.returncode != 0 or "signature_def['serving_default']" not in done.stdout:
        yield "saved_model_cli: " + " ".join((done.stdout + done.stderr).split())[-300:]


def main():
    root = pathlib.Path(sys.argv[1])
    differ = count = 0
    for path in sorted(root.rglob("saved_model.pb")):
        folder = path.parent
        count += 1
        try:
            lines = list(differences(folder))
            if "--tools" in sys.argv[2:]:
                lines += show(folder)
                if folder.parent.name in LITE:
                    lines += lite_differences(folder)
        except Exception as error:  # whatever TensorFlow says is the result
            lines = [f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"]
        differ += bool(lines)
        for line in lines:
            print("DIFFERS", f"{folder.relative_to(root)}:", line, flush=True)
    print(f"TensorFlow {tf.__version__}: {count} models, {differ} differ")
    return 1 if differ or not count else 0


if __name__ == "__main__":
    sys.exit(main())
