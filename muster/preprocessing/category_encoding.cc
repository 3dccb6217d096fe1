#include "muster/preprocessing/category_encoding.h"

#include <fmt/format.h>

#include <utility>

#include "muster/base/error.h"
#include "muster/preprocessing/internal/checks.h"
#include "muster/preprocessing/internal/encode.h"
#include "muster/preprocessing/internal/tensor_layer.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {

class CategoryEncoding::Impl final : public internal::TensorLayerImpl {
 public:
  Impl(int64_t num_tokens, CategoryEncodingOptions options)
      : TensorLayerImpl("category_encoding", std::move(options.name)),
        num_tokens_(num_tokens),
        mode_(options.output_mode) {}

  Tensor apply(const Tensor& input) const override { return encode(input, {}); }

  Tensor encode(const Tensor& input, const Tensor& weights) const {
    const Tensor ids = internal::to_int64(input, "CategoryEncoding");
    const Tensor outside = ids.masked_select((ids < 0).logical_or(ids >= num_tokens_));
    if (outside.numel() > 0) {
      throw invalid_argument(fmt::format("CategoryEncoding: the input has {}, and num_tokens is {}",
                                         outside[0].item<int64_t>(), num_tokens_),
                             "numbers must be at least 0 and below num_tokens");
    }
    return internal::encode(ids, mode_, num_tokens_, weights);
  }

  Tensor count(const Tensor& input, const Tensor& weights) const {
    if (mode_ != OutputMode::kCount) {
      throw invalid_argument(
          fmt::format("CategoryEncoding: count_weights were given, and output_mode is {}",
                      internal::name_of(mode_)),
          "weights are for kCount alone");
    }
    if (!weights.defined() || weights.sizes() != input.sizes()) {
      throw invalid_argument(fmt::format(
          "CategoryEncoding: count_weights are {}, for the input {}",
          weights.defined() ? describe(weights) : "an undefined tensor", describe(input)));
    }
    return encode(input, weights);
  }

 private:
  int64_t num_tokens_;
  OutputMode mode_;
};

CategoryEncoding::CategoryEncoding(int64_t num_tokens, CategoryEncodingOptions options) {
  internal::check_at_least("CategoryEncoding", "num_tokens", num_tokens, 1);
  internal::check_output_mode("CategoryEncoding", options.output_mode,
                              {OutputMode::kOneHot, OutputMode::kMultiHot, OutputMode::kCount});
  impl_ = std::make_shared<Impl>(num_tokens, std::move(options));
}

Tensor CategoryEncoding::operator()(const Tensor& ids) const { return impl_->apply(ids); }

Tensor CategoryEncoding::operator()(const Tensor& ids, const Tensor& count_weights) const {
  return impl_->count(ids, count_weights);
}

CategoryEncoding::operator Layer() const { return Layer(impl_); }

}  // namespace muster::inline v0_1
