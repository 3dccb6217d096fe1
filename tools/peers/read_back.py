"""Has files of Muster read by others, and files of others read by Muster.

    python tools/peers/read_back.py BIN FOLDER

BIN has the programs of a build, files_program among them. Which others read depends on what this Python can import:
NumPy always, TensorFlow in build/peers/tensorflow, PyTorch and safetensors in build/peers/today. Ends with 1 if
something differs.
"""

import argparse
import csv
import importlib.util
import json
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import sys
import time
import urllib.request

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np

NUMBERS = np.arange(6).reshape(2, 3) - 2
# What files_program writes.
ARRAYS = {
    "bool": NUMBERS > 0, "uint8": (NUMBERS + 2).astype(np.uint8), "int8": NUMBERS.astype(np.int8),
    "int16": NUMBERS.astype(np.int16), "int32": NUMBERS.astype(np.int32), "int64": NUMBERS.astype(np.int64),
    "float16": (NUMBERS / 4).astype(np.float16), "float32": NUMBERS.astype(np.float32) / np.float32(3),
    "float64": NUMBERS / 3, "odd": np.array([np.nan, np.inf, -np.inf, -0.0, 1e-40], np.float32),
    "scalar": np.float32(1.5), "empty": np.zeros((0, 3), np.float32), "transposed": NUMBERS.astype(np.float32).T,
}
FULL = {"ids": [-1, 0, 2**63 - 1], "numbers": [0.5, np.nan, np.inf], "texts": ["größe".encode(), b"", b"\0\xff"]}
BARE = {"ids": [7], "numbers": [], "texts": []}
failed = 0


def check(truth, what):
    global failed
    failed += not truth
    print(("ok      " if truth else "DIFFERS ") + what, flush=True)


def same(a, b):
    a, b = np.asarray(a), np.asarray(b)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def has(module):
    there = importlib.util.find_spec(module) is not None
    if not there:
        print(f"skipped {module}: it is not there")
    return there


def read_arrays(folder):
    for name, array in ARRAYS.items():
        check(same(np.load(folder / f"{name}.npy"), array), f"numpy.load: {name}.npy")


def read_tensors(folder):
    import safetensors
    import safetensors.torch
    import torch
    with safetensors.safe_open(folder / "tensors.safetensors", "np") as file:
        check(file.metadata() == {"note": "größe"}, "safetensors: the metadata")
    for what, tensors in {"safetensors": safetensors.torch.load_file(folder / "tensors.safetensors"),
                          "torch.load": torch.load(folder / "state.pt", weights_only=True),
                          "torch.load, mapped": torch.load(folder / "state.pt", weights_only=True, mmap=True)}.items():
        check(set(tensors) == {*ARRAYS, "bfloat16"}, f"{what}: the names")
        wrong = [name for name, array in ARRAYS.items() if not same(tensors[name].numpy(), array)]
        check(not wrong, f"{what}: the tensors {wrong}")
        check(torch.equal(tensors["bfloat16"], torch.tensor(NUMBERS / 4, dtype=torch.bfloat16)), f"{what}: bfloat16")


def read_records(folder):
    import tensorflow as tf
    features = {"ids": tf.io.RaggedFeature(tf.int64), "numbers": tf.io.RaggedFeature(tf.float32),
                "texts": tf.io.RaggedFeature(tf.string)}
    for name, compression in {"plain": "", "gzip": "GZIP", "zlib": "ZLIB"}.items():
        records = tf.data.TFRecordDataset(str(folder / f"{name}.tfrecord"), compression)
        batch = next(iter(records.batch(10).map(lambda texts: tf.io.parse_example(texts, features))))
        wanted = [FULL, BARE, FULL]
        right = all(batch[key].to_list()[i] == one[key] for key in ["ids", "texts"] for i, one in enumerate(wanted))
        right = right and all(np.array_equal(a, b["numbers"], equal_nan=True)
                              for a, b in zip(batch["numbers"].to_list(), wanted))
        check(right, f"tf.data.TFRecordDataset and tf.io.parse_example: {name}.tfrecord")
    record = next(iter(tf.data.TFRecordDataset(str(folder / "sequences.tfrecord"))))
    context, steps = tf.io.parse_single_sequence_example(
        record, {"length": tf.io.FixedLenFeature([], tf.int64)},
        {"steps": tf.io.FixedLenSequenceFeature([2], tf.float32)})
    check(int(context["length"]) == 2 and steps["steps"].numpy().tolist() == [[1, 2], [3, 4]],
          "tf.io.parse_single_sequence_example: sequences.tfrecord")


def read_run(bin, folder):
    """A run of the example mnist: its predictions, made again in PyTorch of the exported weights."""
    import torch
    digits, model = folder / "digits", folder / "model"
    subprocess.run([bin / "muster", "data", "digits", f"--out={digits}", "--train=2000", "--test=500"], check=True,
                   stdout=subprocess.DEVNULL)
    subprocess.run([bin / "mnist", f"--data_dir={digits}", f"--model_dir={model}", "--max_steps=40"], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120)
    subprocess.run([bin / "muster", "export", "torch", model, folder / "weights.pt"], check=True,
                   stdout=subprocess.DEVNULL)

    class Flatten(torch.nn.Module):  # channels run fastest, as in Keras
        def forward(self, x):
            return x.permute(0, 2, 3, 1).flatten(1)

    net = torch.nn.Sequential()
    for name, part in {"conv2d": torch.nn.Conv2d(1, 32, 3), "relu": torch.nn.ReLU(), "pool": torch.nn.MaxPool2d(2),
                       "flatten": Flatten(), "dense": torch.nn.Linear(5408, 64), "relu_1": torch.nn.ReLU(),
                       "dense_1": torch.nn.Linear(64, 10)}.items():
        net.add_module(name, part)
    net.load_state_dict(torch.load(folder / "weights.pt", weights_only=True))
    data = (digits / "t10k-images-idx3-ubyte").read_bytes()
    count, height, width = struct.unpack(">III", data[4:16])
    images = torch.frombuffer(bytearray(data[16:]), dtype=torch.uint8).view(count, 1, height, width).float() / 255
    with torch.no_grad():
        probability, kind = net(images).softmax(-1).max(-1)
    with open(model / "predictions.csv") as file:
        rows = list(csv.DictReader(file))
    right = [int(row["class"]) for row in rows] == kind.tolist()
    furthest = np.abs(np.array([float(row["probability"]) for row in rows]) - probability.numpy()).max()
    # The file has six digits.
    check(right and furthest < 2e-6, f"torch.load and load_state_dict: {count} predictions, furthest {furthest:.2g}")


def read_export(bin, folder):
    """TorchScript that Muster wrote, in PyTorch and in muster serve."""
    import torch
    model = folder / "ring"
    subprocess.run([bin / "export_and_serve", f"--model_dir={model}", "--epochs=2"], check=True, timeout=120,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    version = max((model / "export").iterdir())
    points = np.random.RandomState(3).rand(20, 2).astype(np.float32)
    with torch.no_grad():
        scores = torch.jit.load(str(version / "model.pt"))(torch.tensor(points))["scores"].numpy()
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    server = subprocess.Popen([bin / "muster", "serve", str(model / "export"), "--name=ring", f"--port={port}"],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        body = json.dumps({"instances": [{"point": point} for point in points.tolist()]}).encode()
        for tries in range(60):
            try:
                url = f"http://127.0.0.1:{port}/v1/models/ring:predict"
                answer = json.loads(urllib.request.urlopen(urllib.request.Request(url, body), timeout=10).read())
                break
            except OSError:
                if tries == 59 or server.poll() is not None:
                    raise
                time.sleep(0.5)
    finally:
        server.terminate()
        server.wait()
    served = np.array([one["scores"] for one in answer["predictions"]])
    furthest = np.abs(served - scores).max()
    check(furthest < 1e-6, f"torch.jit.load: scores as muster serve has them, furthest {furthest:.2g}")


def text_of(value):
    if isinstance(value, (bytes, str)):
        return "x" + (value.encode() if isinstance(value, str) else bytes(value)).hex()
    return f"{value:.17g}" if isinstance(value, (float, np.floating)) else str(int(value))


def line_of(file, name, shape, values):
    return f"{file} {name} [{','.join(str(size) for size in shape)}] {' '.join(text_of(value) for value in values)}"


def write_arrays(folder):
    """Arrays of NumPy; returns what Muster should print of them."""
    lines = []
    # LibTorch has no wider unsigned integers: Muster reads wider signed ones.
    more = {"uint16": np.array([0, 65535], np.uint16), "uint32": np.array([0, 2**32 - 1], np.uint32),
            "uint64": np.array([0, 2**63 - 1], np.uint64), "big": (NUMBERS / 3).astype(">f8"),
            "fortran": np.asfortranarray(NUMBERS / 3), "unicode": np.array(["größe", "", "日本"]),
            "bytes": np.array([b"ab", b"", b"\xff"]), "strided": np.arange(20, dtype=np.int32)[::3]}
    every = {**ARRAYS, **more}
    for name, array in every.items():
        array = np.asarray(array)
        np.save(folder / f"{name}.npy", array)
        lines.append(line_of(f"{name}.npy", "-", array.shape, [number for number in array.reshape(-1).tolist()]))
    for file, save in {"stored.npz": np.savez, "packed.npz": np.savez_compressed}.items():
        save(folder / file, **every)
        lines += [line_of(file, name, np.asarray(array).shape, np.asarray(array).reshape(-1).tolist())
                  for name, array in every.items()]
    return lines


def write_tensors(folder):
    import safetensors.torch
    import torch
    tensors = {name: torch.tensor(np.asarray(array)).contiguous() for name, array in ARRAYS.items()}
    safetensors.torch.save_file(tensors, folder / "theirs.safetensors", {"format": "pt"})
    kinds = {"bool": "BOOL", "uint8": "U8", "int8": "I8", "int16": "I16", "int32": "I32", "int64": "I64",
             "float16": "F16", "float64": "F64"}
    return [line_of("theirs.safetensors", f"{name}:{kinds.get(name, 'F32')}", np.asarray(array).shape,
                    [np.asarray(array).tobytes()]) for name, array in ARRAYS.items()]


def write_hdf(folder):
    """Arrays of h5py, as they are and packed."""
    import h5py
    with h5py.File(folder / "theirs.h5", "w") as file:
        for name, array in ARRAYS.items():
            array = np.asarray(array)
            file.create_dataset(f"plain/{name}", data=array)
            if array.size > 1:
                file.create_dataset(f"packed/{name}", data=array, compression="gzip", shuffle=True, fletcher32=True)
        found = [(group, name) for group in ["plain", "packed"] for name in file[group]]
    return [line_of("theirs.h5", f"{group}/{name}", np.asarray(ARRAYS[name]).shape,
                    np.asarray(ARRAYS[name]).reshape(-1).tolist()) for group, name in found]


def write_records(folder):
    import tensorflow as tf

    def feature(values):
        if values and isinstance(values[0], bytes):
            return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
        if values and isinstance(values[0], float):
            return tf.train.Feature(float_list=tf.train.FloatList(value=values))
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))

    lines = []
    for name, compression in {"plain": "", "gzip": "GZIP", "zlib": "ZLIB"}.items():
        with tf.io.TFRecordWriter(str(folder / f"{name}.tfrecord"), compression) as writer:
            for i, example in enumerate([FULL, BARE, FULL]):
                features = {key: feature(values) for key, values in example.items()}
                message = tf.train.Example(features=tf.train.Features(feature=features))
                writer.write(message.SerializeToString(deterministic=True))
                lines += [line_of(f"{name}.tfrecord", f"{i}:{key}", [len(values)], values)
                          for key, values in example.items()]
    return lines


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    options = parser.parse_args()
    bin, folder = options.bin.resolve(), options.folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    ours, theirs = folder / "ours", folder / "theirs"
    theirs.mkdir(parents=True)
    subprocess.run([bin / "files_program", f"--model_dir={ours}"], check=True)
    read_arrays(ours)
    wanted = write_arrays(theirs)
    if has("torch"):
        read_run(bin, folder)
        read_export(bin, folder)
        if has("safetensors"):
            read_tensors(ours)
            wanted += write_tensors(theirs)
    if has("h5py"):
        wanted += write_hdf(theirs)
    if has("tensorflow"):
        read_records(ours)
        wanted += write_records(theirs)
    read = subprocess.run([bin / "files_program", f"--data_dir={theirs}"], check=True, capture_output=True, text=True)
    lines = read.stdout.splitlines()
    for line in wanted:
        check(line in lines, f"Muster reads {line[:100]}")
    check(len(lines) == len(wanted), f"Muster reads {len(lines)} things of {len(wanted)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
