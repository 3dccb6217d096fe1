#include "muster/data/internal/feature_values.h"

#include "muster/base/error.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::data::internal {

using formats::FeatureKind;

FeatureKind kind_of(const FeatureDType& dtype, const std::string& key) {
  if (std::holds_alternative<StringDType>(dtype)) return FeatureKind::kBytes;
  const DType number = std::get<DType>(dtype);
  if (number == kFloat32) return FeatureKind::kFloat;
  if (number == kInt64) return FeatureKind::kInt64;
  throw invalid_argument(
      fmt::format("the feature \"{}\" cannot be {}", key, dtype_name(number)),
      "tf.Examples hold float32, int64 and strings; convert in a map() after the parser");
}

formats::Feature values_of(const Value& value, const Shape& shape, FeatureKind kind,
                           const std::string& key) {
  const auto refuse = [&](const std::string& wanted) {
    return invalid_argument(
        fmt::format("the default of the feature \"{}\" is {}, not {}", key, value.describe(),
                    wanted),
        "give it in the feature's dtype: one value, or one of the feature's shape");
  };
  const bool strings = kind == FeatureKind::kBytes;
  const std::string wanted = strings                       ? "strings"
                             : kind == FeatureKind::kFloat ? dtype_name(kFloat32)
                                                           : dtype_name(kInt64);
  if (value.is_strings() != strings) throw refuse(wanted);
  if (strings) {
    const Strings& texts = value.strings();
    if (texts.size() != 1 && texts.shape() != shape) throw refuse(wanted + describe(shape));
    std::vector<std::string> values;
    for (int64_t i = 0; i < texts.size(); ++i) values.emplace_back(texts[i]);
    return values;
  }
  if (!value.tensor().defined()) throw refuse(wanted);
  const Tensor numbers = value.tensor().cpu().contiguous();
  if (numbers.scalar_type() != (kind == FeatureKind::kFloat ? kFloat32 : kInt64)) {
    throw refuse(wanted);
  }
  if (numbers.numel() != 1 && numbers.sizes() != at::IntArrayRef(shape)) {
    throw refuse(wanted + describe(shape));
  }
  const auto copy = [&]<typename Number>(Number) -> formats::Feature {
    const auto* from = numbers.data_ptr<Number>();
    return std::vector<Number>(from, from + numbers.numel());
  };
  return kind == FeatureKind::kFloat ? copy(float{}) : copy(int64_t{});
}

formats::Feature zero_of(FeatureKind kind) {
  switch (kind) {
    case FeatureKind::kBytes:
      return std::vector<std::string>{""};
    case FeatureKind::kFloat:
      return std::vector<float>{0};
    default:
      return std::vector<int64_t>{0};
  }
}

double padded_value_bytes(const formats::Feature& padding) {
  if (std::holds_alternative<std::vector<float>>(padding)) return sizeof(float);
  const auto* texts = std::get_if<std::vector<std::string>>(&padding);
  return sizeof(int64_t) + (texts == nullptr ? 0.0 : static_cast<double>(texts->front().size()));
}

}  // namespace muster::inline v0_1::data::internal
