#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/checkpoint/checkpoint.h"

namespace muster::inline v0_1 {
namespace {

// A line of "a, b and 3 more" would hide what the user needs; models have at most some hundreds of
// variables.
void append(std::string& text, std::string_view title,
            const std::vector<Compatibility::Difference>& differences,
            std::string (*show)(const Compatibility::Difference&)) {
  for (const auto& difference : differences) {
    text += fmt::format("{}{} {}: {}", text.empty() ? "" : "\n", title, difference.name,
                        show(difference));
  }
}

}  // namespace

std::string TensorSpec::describe() const { return dtype_name(dtype) + muster::describe(shape); }

std::string Compatibility::describe() const {
  std::string text;
  append(text, "missing", missing, [](const Difference& d) {
    return fmt::format("the model needs {}, the checkpoint has none", d.needed.describe());
  });
  append(text, "extra", extra, [](const Difference& d) {
    return fmt::format("the checkpoint has {}, the model does not know it", d.found.describe());
  });
  const auto both = [](const Difference& d) {
    return fmt::format("the model needs {}, the checkpoint has {}", d.needed.describe(),
                       d.found.describe());
  };
  append(text, "reshaped", reshaped, both);
  append(text, "other dtype", other_dtype, both);
  return text;
}

void Compatibility::throw_if_incompatible() const {
  if (ok()) return;
  throw invalid_argument(
      fmt::format("the checkpoint {} does not fit this model: {} missing, {} extra, {} reshaped, "
                  "{} of another dtype\n{}",
                  checkpoint, missing.size(), extra.size(), reshaped.size(), other_dtype.size(),
                  describe()),
      "train the changed model in a new model_dir");
}

Compatibility compare(const std::map<std::string, TensorSpec>& needed, const Checkpoint& checkpoint,
                      std::string checkpoint_name) {
  std::map<std::string, TensorSpec> found;
  for (const auto& [name, tensor] : checkpoint.tensors)
    found[name] = {tensor.sizes().vec(), tensor.scalar_type()};
  return compare(needed, found, std::move(checkpoint_name));
}

Compatibility compare(const std::map<std::string, TensorSpec>& needed,
                      const std::map<std::string, TensorSpec>& found, std::string checkpoint_name) {
  Compatibility result;
  result.checkpoint = std::move(checkpoint_name);
  for (const auto& [name, spec] : needed) {
    const auto it = found.find(name);
    if (it == found.end()) {
      result.missing.push_back({.name = name, .needed = spec});
    } else if (it->second.shape != spec.shape) {
      result.reshaped.push_back({name, spec, it->second});
    } else if (it->second.dtype != spec.dtype) {
      result.other_dtype.push_back({name, spec, it->second});
    }
  }
  for (const auto& [name, spec] : found) {
    if (!needed.contains(name)) result.extra.push_back({.name = name, .found = spec});
  }
  return result;
}

}  // namespace muster::inline v0_1
