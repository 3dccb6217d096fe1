#include "muster/heads/internal/classes.h"

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/base/unknown_name.h"
#include "muster/heads/internal/arguments.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::internal {

Classes::Classes(std::string head, int64_t count, std::vector<std::string> vocabulary)
    : head_(std::move(head)), names_(std::move(vocabulary)) {
  if (names_.empty()) {
    for (int64_t i = 0; i < count; ++i) names_.push_back(std::to_string(i));
    return;
  }
  if (this->count() != count) {
    refuse(head_, "label_vocabulary", fmt::format("{} names", names_.size()),
           fmt::format("one for each of {} classes", count));
  }
  for (int64_t i = 0; i < count; ++i) {
    const std::string& name = names_[static_cast<size_t>(i)];
    const std::string argument = fmt::format("label_vocabulary[{}]", i);
    if (name.empty()) refuse(head_, argument, "\"\"", "a name");
    if (!numbers_.emplace(name, i).second)
      refuse(head_, argument, fmt::format("\"{}\", as one before it", name), "another");
  }
}

std::optional<int64_t> Classes::find(std::string_view name) const {
  const auto found = numbers_.find(name);
  if (found == numbers_.end()) return std::nullopt;
  return found->second;
}

Tensor Classes::numbers_of(const Strings& labels, bool empty_is_none) const {
  if (!has_vocabulary()) {
    throw invalid_argument(fmt::format("{}: labels are string{}, and there is no label_vocabulary",
                                       head_, describe(labels.shape())),
                           "give the names of the classes in their order, or numbers as labels");
  }
  Tensor numbers = torch::empty(labels.shape(), at::TensorOptions(kInt64));
  int64_t* number = numbers.data_ptr<int64_t>();
  for (int64_t i = 0; i < labels.size(); ++i) {
    const std::string_view label = labels[i];
    const std::optional<int64_t> found = find(label);
    if (!found && !(empty_is_none && label.empty()))
      throw unknown_name(head_ + ": its label_vocabulary", "label", std::string(label), names_);
    number[i] = found.value_or(-1);
  }
  return numbers;
}

}  // namespace muster::inline v0_1::internal
