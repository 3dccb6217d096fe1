"""Writes a run with each kind of summary of TensorFlow 2, for board_compare.py: python board_writer.py FOLDER."""

import sys

import numpy as np
import tensorflow as tf
from tensorboard.plugins.hparams import api as hp
from tensorboard.plugins.pr_curve import summary as pr

folder = sys.argv[1]
random = np.random.RandomState(7)
with tf.summary.create_file_writer(f"{folder}/tf2").as_default():
    hp.hparams({"rate": 0.5, "layers": 3, "model": "cnn", "augment": True})
    for step in range(20):
        tf.summary.scalar("loss", 1 / (step + 1), step)
        tf.summary.scalar("odd", [float("nan"), float("inf"), 1.0][step % 3], step)
        if step % 5 == 0:
            tf.summary.histogram("weights", random.normal(size=1000), step)
            tf.summary.image("two", random.uniform(size=(2, 8, 8, 3)).astype(np.float32), step, max_outputs=2)
            tf.summary.audio("tone", random.uniform(-1, 1, size=(1, 800, 1)).astype(np.float32), 8000, step)
            tf.summary.text("note", [["a", "b"], ["1", "**2**"]], step)
with tf.compat.v1.Graph().as_default():
    writer = tf.compat.v1.summary.FileWriter(f"{folder}/tf1")
    labels, scores = random.uniform(size=100) > 0.5, random.uniform(size=100)
    for step in range(3):
        writer.add_summary(pr.pb("pr", labels=labels, predictions=scores, num_thresholds=21), step)
    x = tf.constant(np.ones((2, 3), np.float32), name="input")
    tf.matmul(x, tf.constant(np.ones((3, 4), np.float32), name="kernel"), name="product")
    writer.add_graph(tf.compat.v1.get_default_graph())
    writer.close()
