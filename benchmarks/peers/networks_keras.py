"""The networks of networks_torch.py in Keras, 2.15 or 3, on one thread, as contestants of
benchmarks/resnet_benchmark.cc."""
import argparse

from keras_turns import BACKEND, fit_in_turns

import keras
import numpy as np
from keras import layers

EXAMPLES, BATCH, CLASSES = 64, 16, 1000
TEXTS, TIME, VOCABULARY, BLOCKS, HEADS, WIDTH = 8, 128, 256, 4, 4, 256
SEQUENCES, STEPS, FEATURES, UNITS, LABELS = 32, 64, 128, 128, 10  # of the LSTM


def convolved(x, width, kernel, stride=1, relu=True):
    if kernel > 1:
        x = layers.ZeroPadding2D(kernel // 2)(x)
    x = layers.Conv2D(width, kernel, stride, use_bias=False)(x)
    x = layers.BatchNormalization(momentum=0.9, epsilon=1e-5)(x)
    return layers.ReLU()(x) if relu else x


def residual(x, widths, kernels, stride):
    shortcut = x
    if stride > 1 or x.shape[-1] != widths[-1]:
        shortcut = convolved(x, widths[-1], 1, stride, relu=False)
    left = stride
    for place, (width, kernel) in enumerate(zip(widths, kernels)):
        own, left = (left, 1) if kernel == 3 else (1, left)
        x = convolved(x, width, kernel, own, relu=place + 1 < len(widths))
    return layers.ReLU()(layers.Add()([x, shortcut]))


def resnet50(side):
    images = keras.Input((side, side, 3))
    x = layers.MaxPooling2D(3, 2)(layers.ZeroPadding2D(1)(convolved(images, 64, 7, 2)))
    for stage, count in enumerate([3, 4, 6, 3]):
        width = 64 * 2 ** stage
        for block in range(count):
            x = residual(x, [width, width, 4 * width], [1, 3, 1], 2 if stage > 0 and block == 0 else 1)
    return keras.Model(images, layers.Dense(CLASSES)(layers.GlobalAveragePooling2D()(x)))


class Tokens(layers.Layer):
    """Embeds tokens and their positions; project() gives the logits of tokens by the same weights."""

    def build(self, shape):
        self.tokens = self.add_weight(name="tokens", shape=(VOCABULARY, WIDTH), initializer="random_normal")
        self.positions = self.add_weight(name="positions", shape=(TIME, WIDTH), initializer="random_normal")

    def call(self, tokens):
        return keras.ops.take(self.tokens, tokens, axis=0) + self.positions

    def project(self, x):
        return keras.ops.matmul(x, keras.ops.transpose(self.tokens))


class Gpt(keras.Model):
    def __init__(self):
        super().__init__()
        self.tokens = Tokens()
        self.parts = [(layers.LayerNormalization(epsilon=1e-5), layers.MultiHeadAttention(HEADS, WIDTH // HEADS),
                       layers.LayerNormalization(epsilon=1e-5),
                       layers.Dense(4 * WIDTH, activation=lambda x: keras.ops.gelu(x, approximate=True)),
                       layers.Dense(WIDTH)) for _ in range(BLOCKS)]
        self.norm = layers.LayerNormalization(epsilon=1e-5)

    def call(self, tokens):
        x = self.tokens(tokens)
        for norm_1, attention, norm_2, wide, narrow in self.parts:
            y = norm_1(x)
            x = x + attention(y, y, use_causal_mask=True)
            x = x + narrow(wide(norm_2(x)))
        return self.tokens.project(self.norm(x))


def lstm():
    return keras.Sequential([keras.Input((STEPS, FEATURES)), layers.LSTM(UNITS), layers.Dense(LABELS)])


def make(options):
    """(model, inputs, labels, batch)"""
    random = np.random.RandomState(1)
    if options.model == "gpt":
        inputs = random.randint(VOCABULARY, size=(EXAMPLES, TIME))
        return Gpt(), inputs, np.roll(inputs, -1, 1), TEXTS
    if options.model == "lstm":
        return (lstm(), random.randn(EXAMPLES, STEPS, FEATURES).astype(np.float32),
                random.randint(LABELS, size=EXAMPLES), SEQUENCES)
    inputs = random.randn(EXAMPLES, options.side, options.side, 3).astype(np.float32)
    return resnet50(options.side), inputs, random.randint(CLASSES, size=EXAMPLES), BATCH


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=["resnet50", "gpt", "lstm"], required=True)
    parser.add_argument("--side", type=int, default=128)
    options = parser.parse_args()
    model, inputs, labels, batch = make(options)
    model.compile(keras.optimizers.SGD(0.01, momentum=0.9),
                  keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    if BACKEND == "tensorflow":
        import tensorflow as tf
        rows = tf.data.Dataset.from_tensor_slices((inputs, labels)).shuffle(EXAMPLES).repeat().batch(batch).prefetch(1)
    else:
        def endless():
            while True:
                order = np.random.permutation(EXAMPLES)
                for begin in range(0, EXAMPLES, batch):
                    part = order[begin:begin + batch]
                    yield inputs[part], labels[part]
        rows = endless()
    fit_in_turns(model, rows)


if __name__ == "__main__":
    main()
