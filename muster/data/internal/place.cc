#include "muster/data/internal/place.h"

#include <fmt/format.h>

#include "muster/data/internal/sequential.h"

namespace muster::inline v0_1::data::internal {
namespace {

// " of train.csv" where all that `node` gives comes from one file.
std::string of_file(const Node& node) {
  const Node* first = &node;
  while (first->inputs.size() == 1) first = first->input().get();
  const auto* from = first->as<FromFiles>();
  return from != nullptr && from->files.size() == 1 ? " of " + from->files.front().path : "";
}

constexpr const char* kSomewhere = "an element";

std::string in_files(const FromFiles& from, int64_t index) {
  const int64_t number = file_of(index);
  for (const FromFiles::File& file : from.files) {
    if (file.number == number) {
      return fmt::format("element {} of {}", index_in_file(index), file.path);
    }
  }
  return kSomewhere;
}

// Element `index` of the pipeline ending in `node`.
std::string at_index(const Node& node, int64_t index) {
  if (index < 0) return kSomewhere;
  for (const Node* at = &node; at != nullptr; at = at->input().get()) {
    if (at->is<Batch>()) {
      return fmt::format("the batch that begins at example {}{}", index, of_file(*at));
    }
    if (at->is<Rebatch>()) return fmt::format("batch {}{}", index, of_file(*at));
    if (at->is<Unbatch>()) return fmt::format("example {}{}", index, of_file(*at));
    if (at->is<Concatenate, Interleave>()) return kSomewhere;
    if (at->is<FromSource>()) return fmt::format("source element {}", index);
    if (at->is<FromSequential>()) return fmt::format("element {} of {}", index, at->name);
    if (const auto* files = at->as<FromFiles>()) return in_files(*files, index);
  }
  return kSomewhere;
}

}  // namespace

std::string describe_place(const Place& place, const Node& node) {
  if (place.origin == nullptr) return at_index(node, place.tag.index);
  const Origin& origin = *place.origin;
  const std::string inner = at_index(*origin.pipeline, place.number);
  if (origin.stage->is<Concatenate>()) {
    return fmt::format("{}, in input {} of concatenate", inner, origin.input);
  }
  return fmt::format("{}, in what {} makes of its element {}", inner, origin.stage->name,
                     origin.input);
}

}  // namespace muster::inline v0_1::data::internal
