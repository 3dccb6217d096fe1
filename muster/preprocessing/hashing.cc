#include "muster/preprocessing/hashing.h"

#include <fmt/format.h>

#include <utility>

#include "muster/base/error.h"
#include "muster/base/hash.h"
#include "muster/preprocessing/internal/checks.h"
#include "muster/preprocessing/internal/encode.h"
#include "muster/preprocessing/internal/tensor_layer.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/tracing.h"

namespace muster::inline v0_1 {

class Hashing::Impl final : public internal::TensorLayerImpl {
 public:
  Impl(int64_t num_bins, HashingOptions options)
      : TensorLayerImpl("hashing", options.name),
        num_bins_(num_bins),
        options_(std::move(options)) {}

  Tensor apply(const Tensor& input) const override {
    refuse_tracing("the layer Hashing", "it hashes its values itself");
    const Tensor numbers = internal::to_int64(input, "Hashing").to(at::kCPU).contiguous();
    const int64_t* mask = mask_value<int64_t>("integers");
    const int64_t* number = numbers.data_ptr<int64_t>();
    Tensor bins = torch::empty(numbers.sizes(), at::TensorOptions(kInt64));
    for (int64_t i = 0; i < numbers.numel(); ++i) {
      const fmt::format_int digits(number[i]);
      bins.data_ptr<int64_t>()[i] =
          bin_of({digits.data(), digits.size()}, mask && *mask == number[i]);
    }
    return encoded(bins.to(input.device()));
  }

  Tensor apply(const Strings& texts) const {
    const std::string* mask = mask_value<std::string>("texts");
    Tensor bins = torch::empty(texts.shape(), at::TensorOptions(kInt64));
    for (int64_t i = 0; i < texts.size(); ++i)
      bins.data_ptr<int64_t>()[i] = bin_of(texts[i], mask && *mask == texts[i]);
    return encoded(bins);
  }

 private:
  template <typename T>
  const T* mask_value(const char* inputs) const {
    if (!options_.mask_value) return nullptr;
    if (const T* value = std::get_if<T>(&*options_.mask_value)) return value;
    throw invalid_argument(std::visit(
                               [&](const auto& value) {
                                 return fmt::format(
                                     "Hashing: mask_value is \"{}\", and the input is {}", value,
                                     inputs);
                               },
                               *options_.mask_value),
                           "the mask value is a text for texts, an integer for integers");
  }

  int64_t bin_of(std::string_view text, bool masked) const {
    const bool reserved = options_.mask_value && num_bins_ > 1;
    if (reserved && masked) return 0;
    const std::vector<uint64_t>& salt = options_.salt;
    const uint64_t hash =
        salt.empty() ? fingerprint64(text) : siphash64({salt.front(), salt.back()}, text);
    return static_cast<int64_t>(hash % static_cast<uint64_t>(num_bins_ - reserved)) + reserved;
  }

  Tensor encoded(const Tensor& bins) const {
    return internal::encode(bins, options_.output_mode, num_bins_);
  }

  int64_t num_bins_;
  HashingOptions options_;
};

Hashing::Hashing(int64_t num_bins, HashingOptions options) {
  internal::check_at_least("Hashing", "num_bins", num_bins, 1);
  internal::check_output_mode(
      "Hashing", options.output_mode,
      {OutputMode::kInt, OutputMode::kOneHot, OutputMode::kMultiHot, OutputMode::kCount});
  if (options.salt.size() > 2) {
    throw invalid_argument(fmt::format("Hashing: salt has {} numbers", options.salt.size()),
                           "give one, two, or none");
  }
  impl_ = std::make_shared<Impl>(num_bins, std::move(options));
}

Tensor Hashing::operator()(const Strings& texts) const { return impl_->apply(texts); }
Tensor Hashing::operator()(const Tensor& numbers) const { return impl_->apply(numbers); }
Hashing::operator Layer() const { return Layer(impl_); }

}  // namespace muster::inline v0_1
