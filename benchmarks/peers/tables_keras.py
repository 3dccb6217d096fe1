"""Models of tables in Keras on TensorFlow, 2.15 or 3, on one thread, as contestants of a benchmark:

    --task=clicks --data=FOLDER   a linear classifier
    --task=census --data=FILE     a wide and deep one

The pipeline makes the ids of categories, and the weights of all columns of a part are one table: the form that Keras is
fastest with."""
import argparse

from keras_turns import fit_in_turns

import keras
import numpy as np
import tensorflow as tf

import tables_numpy as data

LOSS = keras.losses.BinaryCrossentropy(from_logits=True)


def sum_of_weights(ids, size):
    """The logits of a linear model: the sum of one weight for each id of a row. Its layer is called "wide"."""
    weights = keras.layers.Embedding(size, 1, embeddings_initializer="zeros", name="wide")(ids)
    return keras.layers.Lambda(lambda rows: tf.reduce_sum(rows, 1), output_shape=(1,))(weights)


def clicks(options):
    numbers, ids, labels = data.clicks(options.data)
    inputs = [keras.Input((data.NUMBERS,)), keras.Input((data.CATEGORIES,), dtype="int64")]
    logits = keras.layers.Add()([keras.layers.Dense(1, kernel_initializer="zeros")(inputs[0]),
                                 sum_of_weights(inputs[1], data.CATEGORIES * data.BUCKETS)])
    model = keras.Model(inputs, logits)
    model.compile(keras.optimizers.Ftrl(0.2), LOSS)
    offsets = np.arange(data.CATEGORIES) * data.BUCKETS
    rows = tf.data.Dataset.from_tensor_slices(((numbers, ids), labels)).repeat().batch(options.batch, True)
    return model, rows.map(lambda x, label: ((x[0], x[1] + offsets), label)).prefetch(1)


AGES = [18, 25, 30, 35, 40, 45, 50, 55, 60, 65]
GAINS, LOSSES = [1, 3000, 5100, 7000, 15000], [1, 1400, 1800, 2000, 2200]
DEEP = {"workclass": 4, "education": 4, "marital_status": 4, "occupation": 8, "relationship": 4}  # widths of vectors
TEXTS = 200  # buckets of a text
SIZES = [len(AGES) + 1, len(GAINS) + 1, len(LOSSES) + 1] + 6 * [TEXTS] + [1000, 5000]


def crossed(keys, size):
    return tf.strings.to_hash_bucket_fast(tf.strings.join(keys, "_X_"), size)


def features_of(row, label):
    """(numbers, ids of the wide part, ids of each embedding, ids of the sexes), as the feature columns make them."""
    buckets = [tf.cast(tf.raw_ops.Bucketize(input=row[name], boundaries=boundaries), tf.int64)
               for name, boundaries in (("age", AGES), ("capital_gain", GAINS), ("capital_loss", LOSSES))]
    ids = {name: tf.strings.to_hash_bucket_fast(row[name], TEXTS) for name in data.CENSUS_TEXTS}
    both = [row["education"], row["occupation"]]
    wide = [*buckets, *(ids[name] for name in data.CENSUS_TEXTS if name != "sex"), crossed(both, 1000),
            crossed([tf.strings.as_string(buckets[0]), *both], 5000)]
    wide = tf.stack(wide, 1) + np.cumsum([0] + SIZES[:-1])
    numbers = [(row["age"] - 38) / 13, (row["education_num"] - 10) / 2.6, (row["hours_per_week"] - 40) / 12,
               tf.math.log1p(row["capital_gain"]) / 8, tf.math.log1p(row["capital_loss"]) / 8]
    return (tf.stack(numbers, 1), wide, tf.one_hot(ids["sex"], TEXTS), *(ids[name] for name in DEEP)), label


class WideAndDeep(keras.Model):
    """Updates the wide part by `ftrl`, the rest by the optimizer of compile()."""

    def train_step(self, batch):
        x, labels = batch
        wide = self.get_layer("wide").trainable_variables
        deep = [variable for layer in self.layers if layer.name != "wide" for variable in layer.trainable_variables]
        with tf.GradientTape() as tape:
            loss = self.compute_loss(x, labels, self(x, training=True))
        gradients = tape.gradient(loss, wide + deep)
        self.ftrl.apply_gradients(zip(gradients[:len(wide)], wide))
        self.optimizer.apply_gradients(zip(gradients[len(wide):], deep))
        return {"loss": loss}


def census(options):
    features, labels = data.census(options.data)
    numbers, wide, sexes = keras.Input((5,)), keras.Input((len(SIZES),), dtype="int64"), keras.Input((TEXTS,))
    ids = [keras.Input((), dtype="int64") for _ in DEEP]
    x = keras.layers.Concatenate()([numbers, sexes, *(keras.layers.Embedding(TEXTS, width)(one)
                                                      for one, width in zip(ids, DEEP.values()))])
    for units in (64, 32):
        x = keras.layers.Dense(units, activation="relu")(x)
    logits = keras.layers.Add()([keras.layers.Dense(1)(x), sum_of_weights(wide, sum(SIZES))])
    model = WideAndDeep([numbers, wide, sexes, *ids], logits)
    model.ftrl = keras.optimizers.Ftrl(0.005)
    model.compile(keras.optimizers.Adam(), LOSS)
    rows = tf.data.Dataset.from_tensor_slices((features, labels)).shuffle(len(labels)).repeat()
    return model, rows.batch(options.batch, True).map(features_of).prefetch(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--task", choices=["clicks", "census"], required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--batch", type=int, required=True)
    options = parser.parse_args()
    fit_in_turns(*{"clicks": clicks, "census": census}[options.task](options))


if __name__ == "__main__":
    main()
