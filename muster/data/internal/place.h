// Where an element comes from, in the words of messages.
#pragma once

#include <memory>
#include <string>

#include "muster/data/internal/node.h"
#include "muster/data/internal/stream.h"

namespace muster::inline v0_1::data::internal {

// What is common to the elements that a stage with several inputs hands on of one of them.
struct Origin {
  NodePtr pipeline;  // the input, or what the stage's function made
  NodePtr stage;
  int64_t input;  // which input it is, or the element of the input that the function made it of
};

struct Place {
  Place() = default;
  Place(const Ref& tag) : tag(tag) {}  // NOLINT: most elements have no other

  // What keyed maps derive their keys from; of a batch: the position of its first row, and its
  // pass.
  Ref tag;
  // Behind a stage with several inputs; number: the tag's index in that pipeline.
  std::shared_ptr<const Origin> origin;
  int64_t number = 0;

  // The same behind a stage that handed it on with the tag `given`. The innermost origin stays: it
  // names the file.
  void pass(const std::shared_ptr<const Origin>& stage, const Ref& given) {
    if (origin == nullptr) {
      origin = stage;
      number = tag.index;
    }
    tag = given;
  }
};

// "element 17 of train.csv", "source element 17", "the batch that begins at example 128": what the
// pipeline ending in `node` gives there, as far as can be said; "an element" where nothing can.
std::string describe_place(const Place& place, const Node& node);

}  // namespace muster::inline v0_1::data::internal
