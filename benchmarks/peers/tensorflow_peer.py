"""Models of the benchmarks by tf.estimator of TensorFlow 2.15 (./dev peers tensorflow), on one thread, as contestants:

    --task=mnist --data_dir=FOLDER [--way=train|evaluate|predict]   the model of examples/mnist
    --task=table|sparse_rows|clicks|census [--data=PATH]            the classifiers of tensorflow_tables.py
"""
import argparse
import os
import tempfile

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

import numpy as np
import tensorflow as tf

import tensorflow_tables
from mnist_numpy import read_digits
from turns import Turns, take_turns

LEARNING_RATE = 0.02
EVALUATION_BATCH = 100


def to_floats(images):
    return tf.cast(images, tf.float32) * (1 / 255)


def model_fn(features, labels, mode, params):
    model = tf.keras.Sequential([
        tf.keras.layers.Conv2D(32, 3, activation="relu"), tf.keras.layers.MaxPooling2D(), tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(64, activation="relu"), tf.keras.layers.Dense(10)])
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, {"class": tf.argmax(model(to_floats(features["image"])), -1)})
    logits = model(features, training=mode == tf.estimator.ModeKeys.TRAIN)
    loss = tf.compat.v1.losses.sparse_softmax_cross_entropy(labels, logits)
    accuracy = tf.compat.v1.metrics.accuracy(labels, tf.argmax(logits, -1))
    optimizer = tf.compat.v1.train.MomentumOptimizer(LEARNING_RATE, params["momentum"])
    train_op = optimizer.minimize(loss, global_step=tf.compat.v1.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops={"accuracy": accuracy})


def digits(options, config):
    estimator = tf.estimator.Estimator(model_fn, config=config, params={"momentum": options.momentum})
    images, labels = read_digits(options.data_dir, "train")
    images, labels = images[..., None], labels.astype(np.int64)

    def batches():
        rows = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(len(labels)).repeat().batch(options.batch)
        return rows.map(lambda images, labels: (to_floats(images), labels)).prefetch(1)

    return estimator, batches


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


def evaluate_in_turns(estimator, options):
    images, labels = read_digits(options.data_dir, "t10k")
    scaled, labels = images[..., None].astype(np.float32) * (1 / 255), labels.astype(np.int64)

    def rows():
        return tf.data.Dataset.from_tensor_slices((scaled, labels)).batch(EVALUATION_BATCH).prefetch(1)

    take_turns(lambda: estimator.evaluate(rows)["loss"])


def predict_in_turns(estimator, options):
    """By the exported model in a session, as tf.contrib.predictor did; Estimator.predict() builds the graph anew in each
    call, and the signature of tf.saved_model.load() is slower."""
    def receiver():
        image = {"image": tf.compat.v1.placeholder(tf.uint8, [None, 28, 28, 1])}
        return tf.estimator.export.ServingInputReceiver(image, image)

    folder = estimator.export_saved_model(tempfile.mkdtemp(), receiver).decode()
    images = read_digits(options.data_dir, "t10k")[0][..., None]
    with tf.Graph().as_default(), tf.compat.v1.Session(config=estimator.config.session_config) as session:
        signature = tf.compat.v1.saved_model.load(session, ["serve"], folder).signature_def["serving_default"]
        call = session.make_callable(signature.outputs["class"].name, [signature.inputs["image"].name])
        take_turns(lambda: call(images[:1])[0])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--task", choices=["mnist", *tensorflow_tables.TASKS], required=True)
    parser.add_argument("--way", choices=["train", "evaluate", "predict"], default="train")
    parser.add_argument("--data_dir")
    parser.add_argument("--data")
    parser.add_argument("--model", choices=["cnn"])
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--momentum", type=float, default=0.0)
    options = parser.parse_args()
    session = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    config = tf.estimator.RunConfig(session_config=session, save_checkpoints_steps=None, save_checkpoints_secs=None)
    if options.way != "train":
        config = tf.estimator.RunConfig(session_config=session)
    make = digits if options.task == "mnist" else tensorflow_tables.TASKS[options.task]
    estimator, batches = make(options, config)
    if options.way == "train":
        estimator.train(batches, hooks=[TurnsHook()])
        return
    estimator.train(batches, steps=1)
    (evaluate_in_turns if options.way == "evaluate" else predict_in_turns)(estimator, options)


if __name__ == "__main__":
    main()
