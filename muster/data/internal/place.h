// Says where an element comes from, for messages. Thread safety: values.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "muster/data/internal/node.h"
#include "muster/data/internal/source_index.h"

namespace muster::inline v0_1::data::internal {

// What the index of an element's tag counts at some place of a pipeline. It holds names alone:
// elements may be kept for long, and their data set is not to be kept with them.
struct Numbering {
  enum class Kind { kUnknown, kSource, kSequential, kFiles, kExample, kBatch, kBatchOf, kWindow };

  Kind kind = Kind::kUnknown;
  std::string name{};  // of a sequential source; of the one file batches come from
  std::vector<FromFiles::File> files{};  // of kFiles

  // "element 17 of train.csv", "source element 17", "the batch that begins at example 128"; "an
  // element" where nothing can be said.
  std::string describe(int64_t index) const;
};
// Says what indices count at the end of the pipeline.
Numbering numbering_of(const Node& node);

// What the elements of one input of a stage with several inputs have in common.
struct Origin {
  Numbering numbering;  // of that input
  std::string which;    // "what flat_map makes of source element 3", "input 1 of concatenate"
  bool concatenated = false;
  bool first = false;  // of those concatenated
};

struct Place {
  Place() = default;
  Place(const SourceIndex& tag) : tag(tag) {}  // NOLINT: most elements have no other

  // What keyed maps derive their keys from; of a batch: the position of its first row, and its
  // pass.
  SourceIndex tag;
  // Behind a stage with several inputs; number: the tag's index in that input.
  std::shared_ptr<const Origin> origin;
  int64_t number = 0;
};

// Marks the elements of one input of a stage with that input.
class OriginMarker {
 public:
  OriginMarker() = default;
  explicit OriginMarker(Origin origin) : own_(std::make_shared<const Origin>(std::move(origin))) {}

  // Changes the place of an element to the one after the stage, with the tag `given`.
  void mark(Place& place, const SourceIndex& given);

 private:
  std::shared_ptr<const Origin> own_;
  // For elements that have an origin already: that origin, and the one joined of both. They are
  // kept because many elements in a row share them.
  std::shared_ptr<const Origin> inner_, both_;
};

// The tag after a stage with several inputs, which may number their elements alike: it tells apart
// the same `tag` in inputs with unequal `outer`. Its index is negative, since it is not a place in
// the data.
SourceIndex tag_within(const SourceIndex& outer, const SourceIndex& tag);

// Describes the place of an element that the pipeline ending in `node` gives.
std::string describe_place(const Place& place, const Node& node);

// Which of the data sets concatenated one after another input `index` of the stage begins with:
// a.concatenate(b).concatenate(c) has three.
int64_t number_of_input(const Node& concatenate, size_t index);

}  // namespace muster::inline v0_1::data::internal
