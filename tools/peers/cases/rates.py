"""The learning rate at each step of a run that is stopped and continued: of an Estimator from its model_dir, and of
tf.keras.Model.fit() from a checkpoint of model and optimizer. Schedules are those of the kind "schedules".
"""

import os
import tempfile

import numpy as np
import tensorflow as tf

from cases import schedules

# Predictions stay below it: the gradient of the bias is -1, and the bias grows by the rate of each step.
LABEL = 1000.0


def generate(random):
    program = {"where": random.choice(["estimator", "fit"]), "schedule": schedules.generate(random),
               "stops": sorted(random.sample(range(1, 25), random.choice([2, 3])))}
    if program["where"] == "fit":
        program["optimizer"] = random.choice(["SGD", "Adam"])
    return program


def schedule(program):
    given = program["schedule"]
    return getattr(tf.keras.optimizers.schedules, given["name"])(**given["options"])


class Biases(tf.estimator.SessionRunHook):
    """Notes the bias before each step, and at the end."""

    def __init__(self):
        self.biases = []

    def begin(self):
        [self.bias] = [one for one in tf.compat.v1.global_variables() if one.op.name.endswith("/bias_weights")]

    def before_run(self, context):
        self.biases.append(float(context.session.run(self.bias)[0]))

    def end(self, session):
        self.biases.append(float(session.run(self.bias)[0]))


def with_estimator(program):
    def data():
        return tf.data.Dataset.from_tensor_slices(({"x": [[0.5]]}, [[LABEL]])).repeat().batch(1)

    rates = []
    with tempfile.TemporaryDirectory() as folder:
        for stop in program["stops"]:
            head = tf.estimator.RegressionHead(loss_fn=lambda labels, logits: tf.abs(labels - logits))
            estimator = tf.estimator.LinearEstimator(
                head, [tf.feature_column.numeric_column("x")], model_dir=folder,
                optimizer=lambda: tf.keras.optimizers.legacy.SGD(schedule(program)))
            hook = Biases()
            estimator.train(data, max_steps=stop, hooks=[hook])
            rates.extend(np.diff(hook.biases))
    return {}, {"rates": np.array(rates, np.float64)}


class Rates(tf.keras.callbacks.Callback):
    def __init__(self):
        self.rates = []

    def on_train_batch_begin(self, batch, logs=None):
        # While fit() runs, learning_rate is the rate of the step before.
        self.rates.append(float(schedule_of(self.model.optimizer)(self.model.optimizer.iterations)))


def schedule_of(optimizer):
    return optimizer._learning_rate


def with_fit(program):
    rates, done = [], 0
    x, y = np.full([1, 1], 0.5, np.float32), np.full([1, 1], LABEL, np.float32)
    with tempfile.TemporaryDirectory() as folder:
        prefix = os.path.join(folder, "checkpoint")
        for stop in program["stops"]:
            model = tf.keras.Sequential([tf.keras.layers.Dense(1, kernel_initializer="zeros", input_shape=[1])])
            optimizer = getattr(tf.keras.optimizers, program["optimizer"])(schedule(program))
            optimizer.build(model.trainable_variables)
            model.compile(optimizer, "mae")
            checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer)
            if done:
                checkpoint.read(prefix).assert_consumed()
            hook = Rates()
            model.fit(x, y, epochs=stop - done, batch_size=1, shuffle=False, verbose=0, callbacks=[hook])
            checkpoint.write(prefix)
            rates.extend(hook.rates)
            done = stop
        kernel, bias = model.get_weights()
    return {}, {"rates": np.array(rates, np.float64), "kernel": kernel, "bias": bias}


def run(program):
    return (with_estimator if program["where"] == "estimator" else with_fit)(program)
