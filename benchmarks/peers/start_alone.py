"""The smallest training of one process: one linear layer, which says when its first step is done. The backend of
Keras 3 is what KERAS_BACKEND says."""
import argparse
import os

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

RATE, ROWS, FEATURES = 0.01, 32, 8


def tell():
    print("the first step is done", flush=True)


def estimator():
    import tempfile

    import tensorflow as tf

    def model_fn(features, labels, mode):
        loss = tf.reduce_mean(tf.square(tf.compat.v1.layers.dense(features, 1) - labels))
        optimizer = tf.compat.v1.train.GradientDescentOptimizer(RATE)
        step = tf.compat.v1.train.get_global_step()
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=optimizer.minimize(loss, global_step=step))

    class Tells(tf.estimator.SessionRunHook):
        told = False

        def after_run(self, context, values):
            if not self.told:
                tell()
            self.told = True

    def rows():
        return tf.data.Dataset.from_tensors((tf.ones([ROWS, FEATURES]), tf.ones([ROWS, 1]))).repeat()

    with tempfile.TemporaryDirectory() as folder:
        tf.estimator.Estimator(model_fn, folder).train(rows, max_steps=2, hooks=[Tells()])


def keras():
    import keras
    import numpy as np

    class Tells(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            float(logs["loss"])
            if batch == 0:
                tell()

    model = keras.Sequential([keras.layers.Input((FEATURES,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(RATE), "mse")
    rows = 2 * ROWS
    model.fit(np.ones([rows, FEATURES], np.float32), np.ones([rows, 1], np.float32), batch_size=ROWS, verbose=0,
              callbacks=[Tells()])


def torch(compiled):
    import torch
    torch.set_num_threads(1)
    model = torch.nn.Linear(FEATURES, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    call = torch.compile(model) if compiled else model
    features, labels = torch.ones(ROWS, FEATURES), torch.ones(ROWS, 1)
    for step in range(2):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(call(features), labels).backward()
        optimizer.step()
        if step == 0:
            tell()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--api", choices=["estimator", "keras", "torch"], required=True)
    parser.add_argument("--compile", action="store_true")
    options = parser.parse_args()
    if options.api == "torch":
        torch(options.compile)
    else:
        {"estimator": estimator, "keras": keras}[options.api]()


if __name__ == "__main__":
    main()
