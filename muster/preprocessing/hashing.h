// Assigns texts and integers to buckets without a vocabulary.
// Thread safety: immutable values.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "muster/base/export.h"
#include "muster/layers/layer.h"
#include "muster/preprocessing/output_mode.h"
#include "muster/tensor/value.h"

namespace muster::inline v0_1 {

// Options of Hashing.
struct HashingOptions {
  // Gets bucket 0, and all other values share the rest; with one bucket it has no effect. A text
  // for texts, an integer for integers.
  std::optional<std::variant<int64_t, std::string>> mask_value{};
  // Empty: FarmHash's Fingerprint64. Two numbers: SipHash-2-4 with this key. One number: the same
  // as that number twice.
  std::vector<uint64_t> salt{};
  OutputMode output_mode = OutputMode::kInt;  // or kOneHot, kMultiHot, kCount
  std::string name{};                         // of the layer
};

// Returns the bucket hash % num_bins of each text, int64, encoded as OutputMode says. An integer is
// hashed as its decimal digits. The buckets are those of Keras. It is a function for map(), and
// converts to a Layer, which takes integers.
class MUSTER_EXPORT Hashing {
 public:
  // Throws InvalidArgument for num_bins < 1, for more than two numbers of salt, and for kTfIdf.
  explicit Hashing(int64_t num_bins, HashingOptions options = {});

  // Throws InvalidArgument for a mask value of the other kind.
  Tensor operator()(const Strings& texts) const;
  // Also throws InvalidArgument for dtypes other than integers.
  Tensor operator()(const Tensor& numbers) const;
  operator Layer() const;  // NOLINT(google-explicit-constructor)

 private:
  class Impl;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace muster::inline v0_1
