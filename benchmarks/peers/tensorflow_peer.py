"""Models of the benchmarks in TensorFlow 2.15 (./dev peers tensorflow), on one thread, as contestants of a benchmark:

    --task=mnist --api=estimator|keras --data_dir=FOLDER   the model of examples/mnist
    --task=table --api=estimator                           DNNClassifier on the table of tabular_torch.py
"""
import argparse
import contextlib
import os

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf

from mnist_numpy import read_idx
from turns import Turns

ROWS, FEATURES, UNITS = 100_000, 13, 64  # of the table
RATES = {"mnist": 0.02, "table": 0.01}


def digits(options):
    images = read_idx(os.path.join(options.data_dir, "train-images-idx3-ubyte"))[..., None]
    labels = read_idx(os.path.join(options.data_dir, "train-labels-idx1-ubyte")).astype(np.int64)
    rows = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(len(labels)).repeat().batch(options.batch)
    return rows.map(lambda images, labels: (tf.cast(images, tf.float32) * (1 / 255), labels)).prefetch(1)


def table(options):
    features = np.random.RandomState(1).randn(ROWS, FEATURES).astype(np.float32)
    labels = (np.sin(features).sum(1, keepdims=True) > 0).astype(np.int64)
    rows = tf.data.Dataset.from_tensor_slices(({"x": features}, labels))
    return rows.shuffle(ROWS).repeat().batch(options.batch).prefetch(1)


def layers():
    return [tf.keras.layers.Conv2D(32, 3, activation="relu"), tf.keras.layers.MaxPooling2D(), tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(64, activation="relu"), tf.keras.layers.Dense(10)]


def model_fn(features, labels, mode, params):
    logits = tf.keras.Sequential(layers())(features, training=True)
    loss = tf.compat.v1.losses.sparse_softmax_cross_entropy(labels, logits)
    optimizer = tf.compat.v1.train.MomentumOptimizer(RATES["mnist"], params["momentum"])
    train_op = optimizer.minimize(loss, global_step=tf.compat.v1.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


class TurnsHook(tf.estimator.SessionRunHook):
    def __init__(self):
        self.turns = Turns()

    def begin(self):
        self.loss = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.LOSSES)[-1]

    def after_create_session(self, session, coord):
        self.over = not self.turns.next()

    def before_run(self, context):
        return tf.estimator.SessionRunArgs(self.loss)

    def after_run(self, context, values):
        if self.over or not self.turns.next(values.results):
            context.request_stop()


class Over(Exception):
    """No turn follows. Keras looks at stop_training at the end of an epoch alone."""


class TurnsCallback(tf.keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.turns = Turns()

    def on_train_begin(self, logs=None):
        self.take_turn(0.0)

    def on_train_batch_end(self, batch, logs=None):
        self.take_turn(logs["loss"])

    def take_turn(self, loss):
        if not self.turns.next(loss):
            raise Over()


def run_keras(options):
    model = tf.keras.Sequential(layers())
    model.compile(tf.keras.optimizers.SGD(RATES["mnist"], momentum=options.momentum),
                  tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    with contextlib.suppress(Over):
        model.fit(digits(options), epochs=1, steps_per_epoch=10**9, verbose=0, callbacks=[TurnsCallback()])


def run_estimator(options):
    session = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    config = tf.estimator.RunConfig(session_config=session, save_checkpoints_steps=None, save_checkpoints_secs=None)
    if options.task == "mnist":
        estimator = tf.estimator.Estimator(model_fn, config=config, params={"momentum": options.momentum})
        estimator.train(lambda: digits(options), hooks=[TurnsHook()])
        return
    estimator = tf.estimator.DNNClassifier([UNITS, UNITS], [tf.feature_column.numeric_column("x", [FEATURES])],
                                           optimizer=lambda: tf.keras.optimizers.legacy.Adagrad(RATES["table"]),
                                           config=config)
    estimator.train(lambda: table(options), hooks=[TurnsHook()])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--task", choices=["mnist", "table"], required=True)
    parser.add_argument("--api", choices=["estimator", "keras"], default="estimator")
    parser.add_argument("--data_dir")
    parser.add_argument("--model", choices=["cnn"])
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--momentum", type=float, default=0.0)
    options = parser.parse_args()
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    if options.api == "keras":
        run_keras(options)
    else:
        run_estimator(options)


if __name__ == "__main__":
    main()
