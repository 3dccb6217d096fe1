"""The model of examples/mnist in Keras 3, by fit() on one thread, as a contestant of a benchmark
(benchmarks/support/step_pacer.h says how contestants talk). The backend is what KERAS_BACKEND says."""
import argparse
import contextlib
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
BACKEND = os.environ.setdefault("KERAS_BACKEND", "tensorflow")
if BACKEND == "jax":
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import keras
import numpy as np

from mnist_numpy import read_idx
from turns import Turns

LEARNING_RATE = 0.02


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data_dir", required=True)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--momentum", type=float, default=0.0)
    parser.add_argument("--model", default="cnn")
    return parser.parse_args()


def one_thread():
    if BACKEND == "torch":
        import torch
        torch.set_num_threads(1)
    elif BACKEND == "tensorflow":
        import tensorflow as tf
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)


def batches(images, labels, size):
    """Endless shuffled batches: a tf.data pipeline for TensorFlow, arrays of numpy for the others."""
    if BACKEND == "tensorflow":
        import tensorflow as tf
        data = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(len(images)).repeat()
        data = data.batch(size, drop_remainder=True)
        return data.map(lambda i, l: (tf.cast(i, tf.float32) / 255.0, l)).prefetch(tf.data.AUTOTUNE)

    def endless():
        random = np.random.RandomState(1)
        while True:
            order = random.permutation(len(images))
            for begin in range(0, len(order) - size + 1, size):
                rows = order[begin:begin + size]
                yield images[rows].astype(np.float32) * (1 / 255), labels[rows]

    return endless()


class Over(Exception):
    """No turn follows. Keras looks at stop_training at the end of an epoch alone."""


class TakeTurns(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.turns = Turns()

    def on_train_begin(self, logs=None):
        self.take_turn(0.0)

    def on_train_batch_end(self, batch, logs=None):
        self.take_turn(float(logs["loss"]))  # a backend that works ahead has made the step now

    def take_turn(self, loss):
        if not self.turns.next(loss):
            raise Over()


def main():
    options = parse()
    one_thread()
    model = keras.Sequential([
        keras.Input((28, 28, 1)),
        keras.layers.Conv2D(32, 3, activation="relu"),
        keras.layers.MaxPooling2D(),
        keras.layers.Flatten(),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(10),
    ])
    model.compile(keras.optimizers.SGD(LEARNING_RATE, momentum=options.momentum),
                  keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    images = read_idx(os.path.join(options.data_dir, "train-images-idx3-ubyte"))[..., None]
    labels = read_idx(os.path.join(options.data_dir, "train-labels-idx1-ubyte")).astype(np.int32)
    with contextlib.suppress(Over):
        model.fit(batches(images, labels, options.batch), steps_per_epoch=10**9, verbose=0, callbacks=[TakeTurns()])


if __name__ == "__main__":
    main()
