"""Runs models that Muster exported as SavedModels in TensorFlow, and compares the numbers. ./dev check onnx calls it.

    python tools/peers/saved_models.py FOLDER [--tools]

FOLDER has a folder for each model, as onnx_program writes it: saved_model.pb with its variables, and the batches that
exported_numbers.py describes. Numbers may differ by 1e-5 of the largest number of their array, or of 1 if that is larger.
With --tools, saved_model_cli shows each model too, and TensorFlow Lite runs those of LITE. Ends with 1 if a model differs.
"""

import os
import pathlib
import subprocess
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import tensorflow as tf  # noqa: E402
from exported_numbers import batches, difference  # noqa: E402


def differences(folder):
    loaded = tf.saved_model.load(str(folder))
    for rows, arrays in batches(folder):
        given = {name[3:]: tf.constant(array) for name, array in arrays.items() if name.startswith("in/")}
        expected = [name.split("/", 2)[1:] for name in arrays if name.startswith("out/")]
        for signature in sorted({signature for signature, _ in expected}):
            results = loaded.signatures[signature](**given)
            for name in (name for other, name in expected if other == signature):
                text = difference(arrays[f"out/{signature}/{name}"], results[name].numpy())
                if text:
                    yield f"{signature}/{name} of {rows} rows: {text}"


# Models that are converted for TensorFlow Lite too.
LITE = ("dnn_regressor", "resnet18")


def lite_differences(folder):
    converter = tf.lite.TFLiteConverter.from_saved_model(str(folder), signature_keys=["serving_default"])
    interpreter = tf.lite.Interpreter(model_content=converter.convert())
    run = interpreter.get_signature_runner("serving_default")
    for rows, arrays in batches(folder):
        results = run(**{name[3:]: array for name, array in arrays.items() if name.startswith("in/")})
        for name, got in results.items():
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
