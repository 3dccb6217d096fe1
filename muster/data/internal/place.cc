#include "muster/data/internal/place.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "muster/base/random.h"
#include "muster/data/internal/sequential.h"

namespace muster::inline v0_1::data::internal {
namespace {

using Kind = Numbering::Kind;

// The path where all examples come from one file in its order, so that a count of them is one of
// the file's.
std::string only_file(const Node& node) {
  const Node* at = &node;
  while (at->is<Map, Prefetch, Take, TakeWhile, Scan, Cache, Enumerate, AssertCardinality, WithSeed,
                WithOptions>()) {
    at = at->input().get();
  }
  const auto* from = at->as<FromFiles>();
  return from != nullptr && from->files.size() == 1 ? from->files.front().path : "";
}

// Rows are numbered where batch() made them.
Numbering behind_unbatch(const Node& unbatch) {
  Numbering rows = numbering_of(*unbatch.input());
  if (rows.kind != Kind::kBatch) return {};
  rows.kind = Kind::kExample;
  return rows;
}

int64_t inputs_below(const Node& node) {
  const Node* at = &node;
  // Elements made again begin a count of their own.
  while (at->inputs.size() == 1 &&
         !at->is<Interleave, Batch, Unbatch, Rebatch, Window, GroupByWindow, SplitBatch>()) {
    at = at->input().get();
  }
  if (!at->is<Concatenate>()) return 1;
  int64_t count = 0;
  for (const NodePtr& input : at->inputs) count += inputs_below(*input);
  return count;
}

}  // namespace

Numbering numbering_of(const Node& node) {
  for (const Node* at = &node; at != nullptr; at = at->input().get()) {
    if (at->is<Batch>()) return {.kind = Kind::kBatch, .name = only_file(*at->input())};
    if (at->is<Unbatch>()) return behind_unbatch(*at);
    if (at->is<Rebatch, SplitBatch>()) return {.kind = Kind::kBatchOf};
    if (const auto* window = at->as<Window>(); window != nullptr && window->fn == nullptr) {
      return {.kind = Kind::kWindow};
    }
    if (at->is<FromSource>()) return {.kind = Kind::kSource};
    if (at->is<FromSequential>()) return {.kind = Kind::kSequential, .name = at->name};
    if (const auto* from = at->as<FromFiles>()) return {.kind = Kind::kFiles, .files = from->files};
    if (at->is<Concatenate, Interleave, Window, GroupByWindow, Choose>()) return {};
  }
  return {};
}

std::string Numbering::describe(int64_t index) const {
  const std::string somewhere = "an element";
  if (index < 0) return somewhere;
  const std::string of_file = name.empty() ? "" : " of " + name;
  switch (kind) {
    case Kind::kUnknown:
      return somewhere;
    case Kind::kSource:
      return fmt::format("source element {}", index);
    case Kind::kSequential:
      return fmt::format("element {}{}", index, of_file);
    case Kind::kFiles: {
      const auto file = std::find_if(files.begin(), files.end(), [&](const FromFiles::File& one) {
        return one.number == file_of(index);
      });
      if (file == files.end()) return somewhere;
      return fmt::format("element {} of {}", index_in_file(index), file->path);
    }
    case Kind::kExample:
      return fmt::format("example {}{}", index, of_file);
    case Kind::kBatch:
      return fmt::format("the batch that begins at example {}{}", index, of_file);
    case Kind::kBatchOf:
      return fmt::format("batch {}", index);
    case Kind::kWindow:
      return fmt::format("the window that begins at element {}", index);
  }
  return somewhere;
}

void OriginMarker::mark(Place& place, const SourceIndex& given) {
  if (place.origin == nullptr) {
    place.origin = own_;
    place.number = place.tag.index;
  } else {
    if (place.origin != inner_) {
      inner_ = place.origin;
      // Inputs are counted through data sets concatenated one after another.
      both_ = own_->first && inner_->concatenated
                  ? inner_
                  : std::make_shared<const Origin>(
                        Origin{inner_->numbering, inner_->which + ", in " + own_->which,
                               inner_->concatenated && own_->concatenated});
    }
    place.origin = both_;
  }
  place.tag = given;
}

SourceIndex tag_within(const SourceIndex& outer, const SourceIndex& tag) {
  const uint64_t mixed =
      derive_key(static_cast<uint64_t>(outer.index),
                 {id_of("data.tag"), static_cast<uint64_t>(outer.run),
                  static_cast<uint64_t>(tag.index), static_cast<uint64_t>(tag.run)})
          .key;
  return {std::numeric_limits<int64_t>::min() | static_cast<int64_t>(mixed >> 1), tag.run};
}

std::string describe_place(const Place& place, const Node& node) {
  if (place.origin == nullptr) return numbering_of(node).describe(place.tag.index);
  return fmt::format("{}, in {}", place.origin->numbering.describe(place.number),
                     place.origin->which);
}

int64_t number_of_input(const Node& concatenate, size_t index) {
  int64_t before = 0;
  for (size_t i = 0; i < index; ++i) before += inputs_below(*concatenate.inputs[i]);
  return before;
}

}  // namespace muster::inline v0_1::data::internal
