"""Writes the checkpoints of muster/tensorflow/golden by TensorFlow 2.15, and what is in them as JSON.

    python tools/peers/tensorflow_checkpoints.py muster/tensorflow/golden
"""

import json
import os
import shutil
import sys

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1

DTYPES = [
    tf.float32, tf.float64, tf.float16, tf.bfloat16, tf.int8, tf.int16, tf.int32, tf.int64,
    tf.uint8, tf.uint16, tf.uint32, tf.uint64, tf.bool, tf.complex64, tf.complex128, tf.string,
]


def value_of(dtype):
    """Two rows of three numbers."""
    if dtype == tf.string:
        return np.array([[b"", b"one", b"two"], [b"\x00\xff", b"a" * 300, b"end"]])
    if dtype == tf.bool:
        return np.array([[True, False, True], [False, False, True]])
    if dtype.is_complex:
        return (np.arange(6).reshape(2, 3) + 1j * np.arange(6)[::-1].reshape(2, 3)).astype(dtype.as_numpy_dtype)
    if dtype.is_unsigned:
        return np.array([[0, 1, 2], [3, 4, dtype.max if dtype != tf.uint64 else 2**63 - 1]], dtype.as_numpy_dtype)
    if dtype.is_integer:
        return np.array([[dtype.min, -1, 0], [1, 2, dtype.max]], dtype.as_numpy_dtype)
    return np.array([[0.5, -1.25, 0], [2, 3, -4]], dtype.as_numpy_dtype)


def dtypes(folder):
    with tf.Graph().as_default(), v1.Session() as session:
        for dtype in DTYPES:
            v1.get_variable("of/" + dtype.name, initializer=tf.constant(value_of(dtype), dtype), use_resource=True)
        v1.get_variable("scalar", initializer=tf.constant(7.5))
        v1.get_variable("empty", initializer=tf.zeros([0, 4]))
        v1.train.create_global_step()
        session.run(v1.global_variables_initializer())
        v1.train.Saver(save_relative_paths=True).save(session, folder + "/model.ckpt", global_step=3, write_meta_graph=False)


def partitioned(folder):
    """Variables cut along the first axis, and along the second, in two files of data."""
    with tf.Graph().as_default(), v1.Session() as session:
        v1.get_variable("rows", initializer=tf.reshape(tf.range(21.0), [7, 3]), partitioner=tf.compat.v1.fixed_size_partitioner(3),
                        shape=None)
        v1.get_variable("columns", initializer=tf.reshape(tf.range(200.0), [2, 100]),
                        partitioner=tf.compat.v1.fixed_size_partitioner(2, axis=1))
        v1.get_variable("whole", initializer=tf.range(5.0))
        session.run(v1.global_variables_initializer())
        v1.train.Saver(sharded=True, save_relative_paths=True).save(session, folder + "/model.ckpt", global_step=1, write_meta_graph=False)


def estimator(folder, make):
    def input_fn():
        features = {"a": np.arange(32, dtype=np.float32).reshape(32, 1) / 32, "c": np.array(["x", "y", "z", "w"] * 8).reshape(32, 1)}
        return tf.data.Dataset.from_tensor_slices((features, (np.arange(32) % 2).reshape(32, 1))).repeat().batch(8)

    scratch = folder + "/run"
    make(scratch).train(input_fn, steps=5)
    for name in os.listdir(scratch):
        if name == "checkpoint" or (name.startswith("model.ckpt-5.") and not name.endswith(".meta")):
            shutil.copy(scratch + "/" + name, folder)
    shutil.rmtree(scratch)
    with open(folder + "/checkpoint", "w") as state:
        state.write('model_checkpoint_path: "model.ckpt-5"\nall_model_checkpoint_paths: "model.ckpt-5"\n')


def columns():
    category = tf.feature_column.categorical_column_with_vocabulary_list("c", ["x", "y", "z"])
    return category, [tf.feature_column.numeric_column("a"), tf.feature_column.embedding_column(category, 2)]


def dnn_v1(optimizer):
    return lambda folder: v1.estimator.DNNClassifier([4], columns()[1], model_dir=folder, optimizer=optimizer,
                                                     config=tf.estimator.RunConfig(tf_random_seed=1))


def linear_and_deep(folder):
    return tf.estimator.DNNLinearCombinedClassifier(
        model_dir=folder, linear_feature_columns=[columns()[0]], dnn_feature_columns=columns()[1], dnn_hidden_units=[4],
        config=tf.estimator.RunConfig(tf_random_seed=1))


def keras(folder, optimizer, weights_alone=False):
    tf.keras.utils.set_random_seed(1)
    tf.keras.backend.clear_session()
    model = tf.keras.Sequential([tf.keras.layers.Dense(3, input_shape=(2,), name="first"), tf.keras.layers.Dense(1, name="last")])
    model.compile(optimizer, "mse")
    model.fit(np.ones((8, 2)), np.ones((8, 1)), batch_size=2, verbose=0)
    if weights_alone:
        model.save_weights(folder + "/weights")
    else:
        tf.train.Checkpoint(model=model, optimizer=optimizer, global_step=tf.Variable(4, dtype=tf.int64)).save(folder + "/ckpt")


CASES = {
    "dtypes": dtypes,
    "partitioned": partitioned,
    "estimator_adagrad": lambda folder: estimator(folder, dnn_v1("Adagrad")),
    "estimator_adam": lambda folder: estimator(folder, dnn_v1(lambda: v1.train.AdamOptimizer(0.01))),
    "estimator_ftrl": lambda folder: estimator(folder, dnn_v1(lambda: v1.train.FtrlOptimizer(0.01))),
    "estimator_rmsprop": lambda folder: estimator(folder, dnn_v1(lambda: v1.train.RMSPropOptimizer(0.01, momentum=0.5, centered=True))),
    "estimator_linear_and_deep": lambda folder: estimator(folder, linear_and_deep),
    "keras_adam": lambda folder: keras(folder, tf.keras.optimizers.Adam()),
    "keras_sgd": lambda folder: keras(folder, tf.keras.optimizers.SGD(momentum=0.9), weights_alone=True),
    "keras_legacy_adam": lambda folder: keras(folder, tf.keras.optimizers.legacy.Adam()),
}


def plain(value):
    if value.dtype.kind == "c":
        return [[float(z.real), float(z.imag)] for z in value.ravel()]
    if value.dtype.kind in "SO":
        return [text.hex() for text in value.ravel().tolist()]
    return [float(x) if value.dtype.kind not in "iub" else int(x) for x in value.ravel()]


def main():
    for name, write in CASES.items():
        folder = os.path.join(sys.argv[1], name)
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        write(folder)
        for entry in os.listdir(folder):
            if entry.endswith(".meta") or entry.startswith("events"):
                os.remove(os.path.join(folder, entry))
        prefix = tf.train.latest_checkpoint(folder)
        reader = tf.train.load_checkpoint(prefix)
        tensors = {}
        for key in sorted(reader.get_variable_to_shape_map()):
            if key == "_CHECKPOINTABLE_OBJECT_GRAPH":
                continue
            value = np.asarray(reader.get_tensor(key))
            dtype = reader.get_variable_to_dtype_map()[key]
            if dtype == tf.bfloat16:
                value = value.astype(np.float32)
            tensors[key] = {"dtype": dtype.name, "shape": list(value.shape), "values": plain(value)}
        with open(os.path.join(folder, "expected.json"), "w") as file:
            json.dump({"prefix": os.path.basename(prefix), "tensors": tensors}, file, separators=(",", ":"))
            file.write("\n")


if __name__ == "__main__":
    main()
