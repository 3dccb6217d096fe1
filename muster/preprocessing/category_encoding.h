// Encodes category numbers as vectors.
// Thread safety: immutable values.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "muster/base/export.h"
#include "muster/layers/layer.h"
#include "muster/preprocessing/output_mode.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {

// Options of CategoryEncoding.
struct CategoryEncodingOptions {
  OutputMode output_mode = OutputMode::kMultiHot;  // or kOneHot, kCount
  std::string name{};                              // of the layer
};

// Encodes integers in [0, num_tokens) as OutputMode says, in float32. It is a function for map(),
// and converts to a Layer.
class MUSTER_EXPORT CategoryEncoding {
 public:
  // Throws InvalidArgument for num_tokens < 1 and another output mode.
  explicit CategoryEncoding(int64_t num_tokens, CategoryEncodingOptions options = {});

  // Throws InvalidArgument for dtypes other than integers, and for a number outside of [0,
  // num_tokens), with that number.
  Tensor operator()(const Tensor& ids) const;
  // Adds the weights, of the shape of `ids`, where kCount would add ones. Also throws
  // InvalidArgument for another output mode, and for weights of another shape.
  Tensor operator()(const Tensor& ids, const Tensor& count_weights) const;
  operator Layer() const;  // NOLINT(google-explicit-constructor)

 private:
  class Impl;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace muster::inline v0_1
