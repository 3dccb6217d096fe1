"""What contestants in Keras 2.15 and 3 share: one thread, and fit() that makes steps when asked to. Import it before
keras. KERAS_BACKEND names the backend of Keras 3."""
import contextlib
import os

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
BACKEND = os.environ.setdefault("KERAS_BACKEND", "tensorflow")
if BACKEND == "jax":
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
elif BACKEND == "torch":
    import torch
    torch.set_num_threads(1)
if BACKEND == "tensorflow":
    import tensorflow as tf
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)

import keras

from turns import Turns


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


def fit_in_turns(model, batches):
    """`model` is compiled, `batches` have no end."""
    with contextlib.suppress(Over):
        model.fit(batches, steps_per_epoch=10**9, verbose=0, callbacks=[TakeTurns()])
