// Maps integers to their indices in a vocabulary, and indices to integers.
// Thread safety: immutable values.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/data/dataset.h"
#include "muster/layers/layer.h"
#include "muster/preprocessing/output_mode.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

// Options of IntegerLookup, with the same meaning as for StringLookup.
struct IntegerLookupOptions {
  int64_t max_tokens = 0;
  int64_t num_oov_indices = 1;  // unknown tokens are divided among them by remainder
  std::optional<int64_t> mask_token{};
  int64_t oov_token = -1;
  std::vector<int64_t> vocabulary{};
  std::string vocabulary_file{};
  std::vector<double> idf_weights{};
  bool invert = false;  // takes indices and returns tokens
  OutputMode output_mode = OutputMode::kInt;
  bool pad_to_max_tokens = false;
  std::string name{};  // of the layer
};

// Does for integers what StringLookup does for texts, and converts to a Layer.
class MUSTER_EXPORT IntegerLookup {
 public:
  // Throws InvalidArgument for options out of range, for a vocabulary that is empty, has a repeated
  // token, or is too long, and for a line of the file that is not an integer; NotFound for a
  // missing file.
  explicit IntegerLookup(IntegerLookupOptions options = {});

  // Returns an IntegerLookup with the tokens of this data as its vocabulary, the most frequent
  // first; of equally frequent ones the larger first. Otherwise like StringLookup::adapt().
  [[nodiscard]] IntegerLookup adapt(const Dataset& batches) const;
  // The same for one batch.
  [[nodiscard]] IntegerLookup adapt(const Tensor& batch) const;

  // Returns the indices, int64, encoded as OutputMode says; with `invert` the tokens of the
  // indices. Throws InvalidArgument before there is a vocabulary, for dtypes other than integers,
  // and for an unknown token if num_oov_indices is 0.
  Tensor operator()(const Tensor& input) const;
  operator Layer() const;  // NOLINT(google-explicit-constructor)

  // As StringLookup's.
  std::vector<int64_t> vocabulary(bool include_special_tokens = true) const;
  int64_t vocabulary_size() const;

 private:
  class Impl;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace muster::inline v0_1
