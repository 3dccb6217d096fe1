#include "muster/features/internal/feature_specs.h"

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/features/internal/feature_reader.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::feature_column::internal {
namespace {

std::string describe_default(const std::optional<Value>& value) {
  if (!value) return "no default";
  std::string text = "the default";
  if (value->is_tensor()) {
    const Tensor flat = value->tensor().to(kFloat64).flatten().contiguous();
    for (int64_t i = 0; i < flat.numel(); ++i) {
      text += fmt::format(" {}", flat.data_ptr<double>()[i]);
    }
  } else {
    for (int64_t i = 0; i < value->strings().size(); ++i) {
      text += fmt::format(" '{}'", value->strings()[i]);
    }
  }
  return text;
}

std::string describe_feature(const ParsedFeature& feature) {
  struct Describe {
    std::string operator()(const data::FixedLenFeature& each) const {
      return fmt::format("{}{} with {}", dtype_name(each.dtype), describe(each.shape),
                         describe_default(each.default_value));
    }
    std::string operator()(const data::VarLenFeature& each) const {
      return fmt::format("any number of {}", dtype_name(each.dtype));
    }
    std::string operator()(const data::FixedLenSequenceFeature& each) const {
      return fmt::format("steps of {}{}", dtype_name(each.dtype), describe(each.shape));
    }
  };
  return std::visit(Describe(), feature);
}

}  // namespace

void add_feature(data::FeatureSpec& spec, const std::string& reader, const std::string& key,
                 ParsedFeature feature) {
  const std::string text = describe_feature(feature);
  const auto [place, is_new] = spec.emplace(key, std::move(feature));
  if (is_new) return;
  const std::string known = describe_feature(place->second);
  if (known == text) return;
  throw invalid_argument(fmt::format("{} reads the feature '{}' as {}, and another one as {}",
                                     reader, key, text, known),
                         "let all of them read a key with one dtype, shape and default");
}

}  // namespace muster::inline v0_1::feature_column::internal
