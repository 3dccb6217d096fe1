"""Writes the files of muster/kerasfiles/golden by Keras, and what is in them as JSON.

    python tools/peers/keras_files.py 2 muster/kerasfiles/golden    # with TensorFlow 2.15's Keras
    python tools/peers/keras_files.py 3 muster/kerasfiles/golden    # with Keras 3, and h5py alone
"""

import json
import os
import sys

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["KERAS_BACKEND"] = "torch"

VERSION = sys.argv[1]

import h5py
import numpy as np

if VERSION == "2":
    import tensorflow

    keras = tensorflow.keras
else:
    import keras

layers = keras.layers


def dense():
    """Trained, so that there is an optimizer's state."""
    model = keras.Sequential([
        layers.InputLayer((2,)), layers.Dense(3, name="first"), layers.BatchNormalization(scale=False, name="norm"),
        layers.Dense(1, name="last")])
    model.compile("adam", "mse")
    model.fit(np.ones((4, 2), "float32"), np.ones((4, 1), "float32"), verbose=0)
    return model


def parts():
    """Layers that have others in them, in a model that has a model in it."""
    words = keras.Input((4,), name="words")
    rows = layers.Embedding(5, 4, name="rows")(words)
    rows = layers.MultiHeadAttention(2, 3, name="attention")(rows, rows)
    rows = layers.Bidirectional(layers.GRU(2, return_sequences=True), name="both")(rows)
    rows = layers.LSTM(3, name="memory")(layers.Dropout(0.5)(rows))
    inner = keras.Sequential([keras.Input((3,)), layers.Dense(2, name="inside")], name="inner")
    return keras.Model(words, layers.LayerNormalization(center=False, name="norm")(inner(rows)), name="outer")


def image():
    return keras.Sequential([
        layers.InputLayer((4, 4, 2)), layers.Conv2D(3, 2, name="first"), layers.DepthwiseConv2D(2, name="each"),
        layers.SeparableConv2D(2, 2, name="both"), layers.Flatten(), layers.Dense(1)])


def save(folder, name, model):
    """In all ways, with its weights in the order of Keras, by the names of layers."""
    model.save(f"{folder}/{name}.keras")
    model.save(f"{folder}/{name}.h5")
    model.save_weights(f"{folder}/{name}.weights.h5")
    names = [name + ".keras", name + ".h5", name + ".weights.h5"]
    if VERSION == "2":
        model.save_weights(f"{folder}/{name}_legacy.h5")
        names.append(name + "_legacy.h5")

    def values(model):
        return [{"layer": layer.name, "values": [plain(value) for value in layer.get_weights()]}
                for layer in model.layers if layer.get_weights()]

    # The same numbers in C++: small, and exact.
    shape = [3, *model.input_shape[1:]]
    numbers = np.arange(np.prod(shape)).reshape(shape)
    inputs = numbers % 5 if name == "parts" else numbers.astype("float32") / 16
    return {"files": names, "layers": values(model), "outputs": plain(model.predict(inputs, verbose=0))}


def plain(value):
    value = np.asarray(value)
    return {"shape": list(value.shape), "values": [float(x) for x in value.astype("float64").ravel()]}


def arrays(folder):
    """What h5py writes without Keras: every dtype, big-endian, packed, empty and compact ones."""
    expected = {}

    def note(name, value):
        expected[name] = {"dtype": value.dtype.newbyteorder("=").name, **plain(value)}

    with h5py.File(f"{folder}/arrays.h5", "w") as file:
        for dtype in ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"]:
            for order in "<>":
                name = f"{'little' if order == '<' else 'big'}/{np.dtype(dtype).name}"
                file[name] = value = np.arange(6).reshape(2, 3).astype(order + dtype)
                note(name, value)
        file["flags"] = value = np.array([True, False, True])
        note("flags", value)
        file["scalar"] = value = np.float32(7.5)
        note("scalar", value)
        file["empty"] = value = np.zeros((0, 4), "f4")
        note("empty", value)
        value = np.arange(600, dtype="f4").reshape(20, 30)
        for name, options in {"deflate": {"compression": "gzip"}, "shuffle": {"compression": "gzip", "shuffle": True},
                              "checked": {"fletcher32": True}, "chunks": {"chunks": (7, 8)}}.items():
            file.create_dataset("packed/" + name, data=value.astype(">f4" if name == "shuffle" else "<f4"), **options)
            note("packed/" + name, value)
        file["texts"] = ["one", "two"]
    return expected


def refused(folder):
    """What only somebody who asks for it gets of h5py."""
    value = np.arange(4, dtype="f4")
    with h5py.File(f"{folder}/soft_link.h5", "w") as file:
        file["a"] = value
        file["b"] = h5py.SoftLink("/a")
    with h5py.File(f"{folder}/external_link.h5", "w") as file:
        file["b"] = h5py.ExternalLink("arrays.h5", "/scalar")
    with h5py.File(f"{folder}/cycle.h5", "w") as file:
        file.create_group("a")["back"] = file["/"]
    with h5py.File(f"{folder}/external_data.h5", "w") as file:
        file.create_dataset("a", (4,), "f4", external=[("/etc/hostname", 0, 16)])
    with h5py.File(f"{folder}/virtual.h5", "w") as file:
        layout = h5py.VirtualLayout((4,), "f4")
        layout[:] = h5py.VirtualSource("arrays.h5", "scalar", (4,))
        file.create_virtual_dataset("a", layout)
    with h5py.File(f"{folder}/lzf.h5", "w") as file:
        file.create_dataset("a", data=value, compression="lzf")
    with h5py.File(f"{folder}/huge.h5", "w") as file:
        file.create_dataset("a", (1 << 40,), "f4", chunks=(1 << 10,))
    with h5py.File(f"{folder}/huge_chunks.h5", "w") as file:
        file.create_dataset("a", (100,), "f4", chunks=(1 << 29,), maxshape=(None,))
    with h5py.File(f"{folder}/user_block.h5", "w", userblock_size=512) as file:
        file["a"] = value
    with h5py.File(f"{folder}/deep.h5", "w") as file:
        file["/".join("g" * 40)] = value


def main():
    folder = os.path.join(sys.argv[2], "keras" + VERSION)
    os.makedirs(folder, exist_ok=True)
    keras.utils.set_random_seed(1)
    expected = {}
    for make in [dense, parts, image]:
        keras.backend.clear_session()
        expected[make.__name__] = save(folder, make.__name__, make())
    if VERSION == "3":
        short = keras.Sequential([keras.Input((2,)), layers.Dense(2, dtype="bfloat16", name="short")])
        short.save_weights(folder + "/bfloat16.weights.h5")
        os.makedirs(folder + "/../h5py", exist_ok=True)
        with open(folder + "/../h5py/expected.json", "w") as file:
            json.dump(arrays(folder + "/../h5py"), file, separators=(",", ":"))
            file.write("\n")
        refused(folder + "/../h5py")
    with open(folder + "/expected.json", "w") as file:
        json.dump(expected, file, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    main()
