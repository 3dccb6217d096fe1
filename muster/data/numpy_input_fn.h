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
  std::optional<int64_t> num_epochs = 1;  // nullopt: without end, in full batches alone
  std::optional<bool> shuffle{};          // must be said: true for training, false otherwise
  std::optional<uint64_t> seed{};         // of the shuffle; the iterator's when unset
  // The number of rows that a shuffle draws from; all of them when it is unset. Only row numbers
  // wait in the queue.
  std::optional<int64_t> queue_capacity{};
};

// Returns an input function for Estimators that gives the rows of `x`, a tensor or a dict of them,
// and of the labels `y`, in batches. Its elements are (x, y), or x alone when there is no y.
// Batches run over the border of epochs, so that only the last one may be short. Throws
// InvalidArgument when shuffle is unset, for empty dicts, for a key that is in x and in y, for
// values with unequal first dimensions (naming both keys), and for counts below 1.
MUSTER_EXPORT std::function<Dataset()> numpy_input_fn(const Element& x,
                                                      const std::optional<Element>& y,
                                                      const NumpyInputOptions& options);

// Does the same with the arrays of a .npz file: y is the one named `label`, x is all others. Throws
// as load_npz() does too, and NotFound when there is no `label`.
MUSTER_EXPORT std::function<Dataset()> numpy_input_fn(const std::string& npz_path,
                                                      const std::optional<std::string>& label,
                                                      const NumpyInputOptions& options);

}  // namespace muster::inline v0_1::data
