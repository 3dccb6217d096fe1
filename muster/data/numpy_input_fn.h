// Makes input functions over arrays in memory, as tf.estimator.inputs.numpy_input_fn does. Thread
// safety: pure functions; what they return may be called from several threads.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "muster/base/export.h"
#include "muster/data/dataset.h"
#include "muster/tensor/element.h"

namespace muster::inline v0_1::data {

// Options of numpy_input_fn().
struct NumpyInputOptions {
  int64_t batch_size = 128;
  std::optional<int64_t> num_epochs = 1;  // nullopt: without end, only full batches
  std::optional<bool> shuffle{};          // required: true for training, false otherwise
  std::optional<uint64_t> seed{};         // for the shuffle; the iterator's when unset
  // The number of rows that a shuffle draws from; unset: all. The queue holds row numbers only.
  std::optional<int64_t> queue_capacity{};
};

// Returns an input function for Estimators that reads the rows of `x`, a tensor or a dict of
// tensors, and of the labels `y`, in batches. Its elements are (x, y), or x without a y. Batches
// cross the border between epochs, so only the last batch may be short. Throws InvalidArgument when
// shuffle is unset, for empty dicts, for a key that is in x and in y, for values with unequal first
// dimensions (naming both keys), and for counts below 1.
MUSTER_EXPORT std::function<Dataset()> numpy_input_fn(const Element& x,
                                                      const std::optional<Element>& y,
                                                      const NumpyInputOptions& options);

// Does the same with the arrays of a .npz file: y is the array named `label`, x has all others.
// Also throws the errors of load_npz(), and NotFound when there is no `label`.
MUSTER_EXPORT std::function<Dataset()> numpy_input_fn(const std::string& npz_path,
                                                      const std::optional<std::string>& label,
                                                      const NumpyInputOptions& options);

}  // namespace muster::inline v0_1::data
