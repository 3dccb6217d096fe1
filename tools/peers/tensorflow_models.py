"""Writes SavedModels of Keras 2.15, tf.Module and tf.estimator 2.15, with the numbers that TensorFlow computes.

    python tools/peers/tensorflow_models.py FOLDER [NAME]

FOLDER gets a folder for each model, or for NAME alone: saved_model.pb with its variables, and ROWS.npz with
"in/SIGNATURE/NAME" and "out/SIGNATURE/NAME" for 1, 2 and 7 rows, as tests/onnx/imported_cases.cc reads them.
./dev check onnx calls it.
"""

import os
import pathlib
import shutil
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

keras, layers, v1 = tf.keras, tf.keras.layers, tf.compat.v1
tf.get_logger().setLevel("ERROR")


def dense():
    return keras.Sequential([
        layers.Input((4,)), layers.Dense(8, "gelu"), layers.LayerNormalization(), layers.BatchNormalization(),
        layers.Dropout(0.5), layers.Dense(8, "swish"), layers.Dense(6, "elu"), layers.PReLU(),
        layers.Dense(3, "softmax"),
    ])  # fmt: skip


def cnn():
    return keras.Sequential([
        layers.Input((16, 16, 3)), layers.Rescaling(1 / 255, offset=-0.5),
        layers.Conv2D(8, 3, padding="same", activation="relu"), layers.BatchNormalization(), layers.MaxPool2D(),
        layers.DepthwiseConv2D(3, padding="same", depth_multiplier=2),
        layers.Conv2D(8, 3, dilation_rate=2, padding="same"),
        layers.SeparableConv2D(12, 3, strides=2, padding="same"), layers.ZeroPadding2D(1),
        layers.AveragePooling2D(3, 2, padding="same"), layers.MaxPool2D(3, 2, padding="same"), layers.UpSampling2D(3),
        layers.Conv2DTranspose(4, 3, strides=2, padding="same"), layers.Conv2DTranspose(4, 2, strides=2),
        layers.LeakyReLU(), layers.UpSampling2D(2, interpolation="bilinear"), layers.Cropping2D(1),
        layers.Conv2D(6, 2, groups=2), layers.GlobalAveragePooling2D(), layers.Flatten(), layers.Dense(5),
    ])  # fmt: skip


def volume():
    return keras.Sequential([
        layers.Input((8, 8, 8, 2)), layers.Conv3D(4, 3, padding="same"), layers.MaxPool3D(),
        layers.Conv3DTranspose(3, 2, 2),
        layers.AveragePooling3D(2), layers.GlobalMaxPooling3D(), layers.Dense(2, "sigmoid"),
    ])  # fmt: skip


def sequence():
    return keras.Sequential([
        layers.Input((None,), dtype="int32"), layers.Embedding(50, 8, mask_zero=True),
        layers.Bidirectional(layers.LSTM(6, return_sequences=True)), layers.GRU(5), layers.Dense(2),
    ])  # fmt: skip


def recurrent():
    return keras.Sequential([
        layers.Input((7, 3)), layers.SimpleRNN(6, return_sequences=True), layers.LSTM(4, return_sequences=True),
        layers.GRU(4, reset_after=False, return_sequences=True), layers.TimeDistributed(layers.Dense(3)),
        layers.Conv1D(4, 3, padding="causal", dilation_rate=2), layers.GlobalMaxPooling1D(),
    ])  # fmt: skip


def attention():
    x = layers.Input((6, 8))
    y = layers.LayerNormalization()(layers.Add()([x, layers.MultiHeadAttention(2, 4)(x, x)]))
    y = layers.Conv1D(4, 3, padding="same")(y)
    return keras.Model(x, [layers.GlobalAveragePooling1D()(y), layers.Concatenate()([y, x])])


def mobilenet():
    return keras.applications.MobileNetV2(input_shape=(32, 32, 3), weights=None, classes=10, alpha=0.35)


def resnet():
    return keras.applications.ResNet50V2(input_shape=(32, 32, 3), weights=None, classes=10)


class Module(tf.Module):
    """Loops, branches and shapes of its own, in two signatures."""

    def __init__(self):
        super().__init__()
        self.w = tf.Variable(tf.random.stateless_normal([4, 3], [1, 2]), name="w")
        self.b = tf.Variable(tf.zeros([3]))

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")])
    def predict(self, x):
        y = x @ self.w + self.b
        for i in tf.range(3):
            y = tf.where(y > 0, y * 1.1, y - 0.1 * tf.cast(i, tf.float32))
        rows = tf.TensorArray(tf.float32, size=2)
        for i in tf.range(2):
            rows = rows.write(i, y * tf.cast(i + 1, tf.float32))
        if tf.reduce_sum(y) > 0:
            y += 1.0
        best, places = tf.math.top_k(y, 2)
        return {"y": y, "rows": tf.transpose(rows.stack(), [1, 0, 2]), "best": best, "places": places,
                "cut": y[:, ::-1][..., tf.newaxis, :2]}  # fmt: skip

    @tf.function(
        input_signature=[tf.TensorSpec([None, 2, 3], tf.float32, name="a"), tf.TensorSpec([None], tf.int64, name="b")]
    )
    def other(self, a, b):
        product = tf.einsum("bij,jk->bik", a, tf.transpose(self.w))
        return {"c": product, "d": tf.one_hot(b, 3), "e": tf.gather(self.w, b)}


def module(folder):
    made = Module()
    tf.saved_model.save(made, folder, signatures={"serving_default": made.predict, "other": made.other})


def data(count):
    random = np.random.default_rng(count)
    return {
        "x": random.standard_normal((count, 3)).astype(np.float32),
        "age": random.uniform(0, 60, count).astype(np.float32),
        "k": random.integers(0, 5, (count, 1)),
    }


def receiver():
    return tf.estimator.export.build_raw_serving_input_receiver_fn({
        "x": v1.placeholder(tf.float32, [None, 3], "x"), "age": v1.placeholder(tf.float32, [None], "age"),
        "k": v1.placeholder(tf.int64, [None, 1], "k"),
    })()  # fmt: skip


def train_and_export(estimator, folder, receive=receiver):
    def batches():
        return tf.data.Dataset.from_tensors((data(8), tf.constant([0, 1, 2, 0, 1, 2, 0, 1]))).repeat()

    estimator.train(batches, max_steps=3)
    exported = estimator.export_saved_model(os.path.join(estimator.model_dir, "export"), receive)
    shutil.copytree(exported.decode(), folder)


def columns():
    column = tf.feature_column
    category = column.categorical_column_with_identity("k", 5)
    age = column.bucketized_column(column.numeric_column("age"), [20.0, 40.0])
    return [column.numeric_column("x", shape=(3,)), age], category


def estimator_dnn(folder):
    numbers, category = columns()
    dense_columns = [tf.feature_column.indicator_column(category), tf.feature_column.embedding_column(category, 3)]
    train_and_export(tf.estimator.DNNClassifier([8], numbers + dense_columns, n_classes=3, batch_norm=True), folder)


def estimator_wide(folder):
    numbers, category = columns()
    train_and_export(
        tf.estimator.DNNLinearCombinedClassifier(
            linear_feature_columns=[category], dnn_feature_columns=numbers, dnn_hidden_units=[4], n_classes=3
        ),
        folder,
    )


def estimator_linear(folder):
    numbers, category = columns()
    train_and_export(tf.estimator.LinearRegressor(numbers + [category]), folder)


def estimator_examples(folder):
    """Takes serialized examples."""
    numbers, _ = columns()
    parse = tf.feature_column.make_parse_example_spec(numbers)
    train_and_export(
        tf.estimator.DNNClassifier([8], numbers, n_classes=3, label_vocabulary=None),
        folder,
        tf.estimator.export.build_parsing_serving_input_receiver_fn(parse),
    )


def version_1(folder):
    """Variables that are no resources, and layers of version 1."""
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, 8, 8, 1], "x")
        y = v1.nn.conv2d(x, v1.get_variable("kernel", [3, 3, 1, 4], use_resource=False), 1, "SAME")
        y = v1.nn.relu(v1.nn.bias_add(y, v1.get_variable("bias", [4], use_resource=False)))
        y = v1.nn.max_pool2d(y, 2, 2, "VALID")
        w = v1.get_variable("w", [64, 2], use_resource=False, partitioner=v1.fixed_size_partitioner(2))
        y = v1.matmul(v1.reshape(y, [-1, 64]), w)
        session.run(v1.global_variables_initializer())
        v1.saved_model.simple_save(session, folder, {"x": x}, {"y": y})


KERAS = (dense, cnn, volume, sequence, recurrent, attention, mobilenet, resnet)
OTHERS = (module, estimator_dnn, estimator_wide, estimator_linear, estimator_examples, version_1)


def random_input(spec, rows, random):
    shape = [rows if i == 0 else 5 if size is None else size for i, size in enumerate(spec.shape)]
    dtype = spec.dtype.as_numpy_dtype
    if np.issubdtype(dtype, np.integer):
        return random.integers(0, 3, shape).astype(dtype)
    return random.standard_normal(shape).astype(dtype)


def examples(rows):
    parts = data(rows)
    serialized = []
    for i in range(rows):
        features = {
            "x": tf.train.Feature(float_list=tf.train.FloatList(value=parts["x"][i])),
            "age": tf.train.Feature(float_list=tf.train.FloatList(value=[parts["age"][i]])),
        }
        serialized.append(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
    return {"x": parts["x"], "age": parts["age"].reshape(-1, 1)}, tf.constant(serialized)


def write_numbers(folder, name):
    loaded = tf.saved_model.load(str(folder))
    for rows in (1, 2, 7):
        random = np.random.default_rng(rows)
        arrays = {}
        for signature, function in loaded.signatures.items():
            specs = {key: spec for key, spec in function.structured_input_signature[1].items()}
            if any(spec.dtype == tf.string for spec in specs.values()):
                given, texts = examples(rows)
                results = function(**{key: texts for key in specs})
            elif name.startswith("estimator"):
                given = data(rows)
                results = function(**{key: tf.constant(given[key]) for key in specs})
            else:
                given = {key: random_input(spec, rows, random) for key, spec in sorted(specs.items())}
                results = function(**{key: tf.constant(value) for key, value in given.items()})
            for key, value in given.items():
                if key in specs or "examples" in name:
                    arrays[f"in/{signature}/{key}"] = value
            for key, value in results.items():
                if value.dtype != tf.string:
                    arrays[f"out/{signature}/{key}"] = value.numpy()
        # Without a default, Muster's is "predict".
        if "serving_default" not in loaded.signatures:
            for key in [key for key in arrays if key.split("/")[1] == "predict"]:
                arrays[key.replace("/predict/", "/serving_default/", 1)] = arrays[key]
        np.savez(folder / f"{rows}.npz", **arrays)


def main():
    out = pathlib.Path(sys.argv[1])
    for make in KERAS + OTHERS:
        name = make.__name__
        if len(sys.argv) > 2 and sys.argv[2] != name:
            continue
        tf.keras.backend.clear_session()
        tf.keras.utils.set_random_seed(1)
        folder = out / name
        if make in KERAS:
            model = make()
            # Statistics and biases are zeros and ones in the beginning.
            for weight in model.weights:
                if weight.dtype.is_floating:
                    noise = np.random.default_rng(len(weight.name)).uniform(-0.1, 0.1, weight.shape)
                    weight.assign_add(noise.astype(weight.dtype.as_numpy_dtype))
            model.save(str(folder), save_format="tf")
        else:
            with tempfile.TemporaryDirectory() as scratch:
                os.environ["TMPDIR"] = tempfile.tempdir = scratch
                make(str(folder))
                tempfile.tempdir = None
        write_numbers(folder, name)
        print(name, flush=True)


if __name__ == "__main__":
    main()
