#include "muster/tensor/compilation_log.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "muster/base/log.h"
#include "muster/base/strings.h"
#include "muster/tensor/leaf_name.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

constexpr int64_t kWarmUp = 2;  // updates
constexpr int64_t kMostLines = 10;
constexpr int64_t kManySteps = 5;

std::string full_name(const std::string& part, const std::string& leaf) {
  return leaf.empty() || leaf.front() == '[' ? part + leaf : part + "." + leaf;
}

}  // namespace

CompilationLog::Sizes CompilationLog::sizes_of(const Batch& batch) {
  Sizes sizes;
  for (const auto& [part, view] :
       {std::pair<const char*, const ElementView*>{"features", &batch.features},
        {"labels", &batch.labels},
        {"weights", &batch.weights}}) {
    const Element& element = view->element();
    for (size_t i = 0; i < element.values().size(); ++i) {
      const Value& value = element.values()[i];
      if (!value.is_tensor() || !value.tensor().defined()) continue;
      const std::string leaf = leaf_name(element.structure(), static_cast<int64_t>(i));
      sizes[full_name(part, leaf)] = value.tensor().sizes().vec();
    }
  }
  return sizes;
}

std::string CompilationLog::cause(const Sizes& before, const Sizes& now) {
  constexpr size_t kMostTensors = 3;
  std::vector<std::string> parts;
  for (const auto& [name, sizes] : now) {
    const auto known = before.find(name);
    if (known == before.end() || known->second == sizes) continue;
    if (parts.size() == kMostTensors) {
      parts.emplace_back("...");
      break;
    }
    parts.push_back(fmt::format("{} has the sizes [{}], and had [{}] in the step before", name,
                                fmt::join(sizes, ", "), fmt::join(known->second, ", ")));
  }
  return parts.empty() ? "the batch has the sizes of the step before, so the operations of the "
                         "model differ"
                       : join(parts, "; ");
}

// The line about the memory, or "".
std::string CompilationLog::memory() const {
  const std::optional<DeviceMemory> memory = library_->memory(device_.index());
  if (!memory) return "";
  const auto size = [](int64_t bytes) { return human_bytes(static_cast<uint64_t>(bytes)); };
  return fmt::format("{} uses {} of its {} after two steps, and {} at most", device_.str(),
                     size(memory->used), size(memory->limit), size(memory->most));
}

std::string CompilationLog::begin() {
  if (library_ == nullptr) return "";
  programs_ = library_->compilations();
  reading_ = runs_ >= 0 && library_->runs() > runs_ ? reading_ + 1 : 0;
  if (reading_ != kManySteps || updates_ < kWarmUp || told_of_reading_) return "";
  told_of_reading_ = true;
  const std::string line =
      "each step reads a number on the CPU before its update, and waits for the device there: "
      "remove item() and conditions on tensors from the model function";
  log::info(line);
  return line;
}

std::string CompilationLog::end(int64_t step, const Batch* batch, bool updated) {
  if (library_ == nullptr) return "";
  const bool warm = updates_ >= kWarmUp;
  updates_ += updated ? 1 : 0;
  const Sizes now = batch != nullptr ? sizes_of(*batch) : Sizes();
  const Sizes before = std::exchange(before_, now);
  const int64_t compiled = library_->compilations() - programs_;
  runs_ = library_->runs();
  if (updated && updates_ == kWarmUp) {
    const std::string line = memory();
    if (!line.empty()) log::info(line);
    return line;
  }
  if (!warm || compiled <= 0) return "";
  late_ += compiled;
  if (lines_ == kMostLines) return "";
  ++lines_;
  const std::string line = fmt::format("step {}: {} program{} compiled{}{}", step, compiled,
                                       compiled == 1 ? " was" : "s were",
                                       batch != nullptr ? ": " + cause(before, now) : "",
                                       lines_ == kMostLines ? "; later ones are not logged" : "");
  log::info(line);
  return line;
}

}  // namespace muster::inline v0_1
