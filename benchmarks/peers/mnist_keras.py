"""The model of examples/mnist in Keras, 2.15 or 3, on one thread, as a contestant of a benchmark
(benchmarks/support/step_pacer.h says how contestants talk): a step trains on a batch, evaluates,
or predicts one image."""
import argparse
import os

from keras_turns import BACKEND, fit_in_turns

import keras
import numpy as np

from mnist_numpy import read_digits
from turns import take_turns

LEARNING_RATE = 0.02
EVALUATION_BATCH = 100


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data_dir", required=True)
    parser.add_argument("--way", choices=["train", "evaluate", "predict"], default="train")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--momentum", type=float, default=0.0)
    parser.add_argument("--model", default="cnn")
    return parser.parse_args()


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


def evaluate_in_turns(model, images, labels):
    scaled = images.astype(np.float32) * (1 / 255)
    if BACKEND == "tensorflow":
        import tensorflow as tf
        scaled = tf.data.Dataset.from_tensor_slices((scaled, labels)).batch(EVALUATION_BATCH).prefetch(1)
        labels = None
    size = None if labels is None else EVALUATION_BATCH
    take_turns(lambda: model.evaluate(scaled, labels, batch_size=size, verbose=0)[0])


def predict_in_turns(model, images):
    """By a compiled call of the model; Model.predict() takes milliseconds for one image."""
    if BACKEND == "tensorflow":
        import tensorflow as tf
        call = tf.function(lambda image: tf.argmax(model(tf.cast(image, tf.float32) / 255.0, training=False), -1))
        take_turns(lambda: call(tf.constant(images[:1])).numpy()[0])
    else:
        take_turns(lambda: model.predict_on_batch(images[:1].astype(np.float32) * (1 / 255)).argmax())


def main():
    options = parse()
    model = keras.Sequential([
        keras.Input((28, 28, 1)),
        keras.layers.Conv2D(32, 3, activation="relu"),
        keras.layers.MaxPooling2D(),
        keras.layers.Flatten(),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(10),
    ])
    model.compile(keras.optimizers.SGD(LEARNING_RATE, momentum=options.momentum),
                  keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                  metrics=["accuracy"] if options.way == "evaluate" else None)
    images, labels = read_digits(options.data_dir, "train" if options.way == "train" else "t10k")
    images, labels = images[..., None], labels.astype(np.int32)
    if options.way == "train":
        fit_in_turns(model, batches(images, labels, options.batch))
    elif options.way == "evaluate":
        evaluate_in_turns(model, images, labels)
    else:
        predict_in_turns(model, images)


if __name__ == "__main__":
    main()
