// Items: elements on their way through the pipeline.
#pragma once

#include <exception>
#include <functional>
#include <span>

#include "muster/data/internal/node.h"
#include "muster/data/internal/place.h"
#include "muster/data/internal/stream.h"

namespace muster::inline v0_1::data::internal {

// An element, or why there is none. A failing stage does not throw: the error travels in the Item,
// so that it reaches the user at its place in the order, through shuffles and threads, and every
// saved position stays a plain count.
struct Item {
  Element element;
  // When set, the item is row `row` of it, read together with its neighbours.
  std::shared_ptr<Element> block;
  int64_t row = 0;
  Place from;
  std::exception_ptr error;

  // Makes `element` the item.
  void settle();
};

// A stage keeps the item for long: a large row leaves the block it was read with, which would stay
// as long as the last of its rows. Returns its bytes.
uint64_t hold(Item& item);
inline void become_error(Item& item, std::exception_ptr error) {
  item = {};
  item.error = std::move(error);
}

// The element with version counters of its own: rows of a block share theirs, and who writes to one
// would seem to have changed the others.
Element unversioned(const Element& element);

// The exception being handled, as an Error to put into an Item, which names `stage` unless that is
// empty.
std::exception_ptr current_failure(const std::string& stage = "");

// Throws the first error among the items, and lets go of what they hold.
void rethrow_first(std::span<Item> items);

// Item i as row i of one element. Throws InvalidArgument where they do not fit into one batch.
// REQUIRES: none is an error.
Element join_items(std::span<Item> items);
// The same, each value padded to the largest, or to the shape asked for.
Element join_padded(std::span<Item> items, const PaddingOptions& padding);

// What the values of an element take.
uint64_t size_in_bytes(const Element& element);
// The same of an item: of a row, its share of the block.
uint64_t size_in_bytes(const Item& item);

// Streams that run the pipeline ending in a node; `run` must outlive them.
std::unique_ptr<Stream<Ref>> open_refs(const Node& node, const Run& run);  // REQUIRES: addressable
std::unique_ptr<Stream<Item>> open_items(const NodePtr& node, const Run& run);

// Tells apart what is numbered alike in several inputs: `tag` in the input that `outer` names, in
// that pass. Negative, since it is no place in the data.
Ref tag_within(const Ref& outer, const Ref& tag);

// A stage that hands on what its input gives, one to one, and leaves no trace in saved positions.
class PassingStream : public Stream<Item> {
 public:
  explicit PassingStream(std::unique_ptr<Stream<Item>> input) : input_(std::move(input)) {}

  void start(int64_t run) override { input_->start(run); }
  int64_t skip(int64_t count) override { return input_->skip(count); }
  int64_t examples_per_element() const override { return input_->examples_per_element(); }
  void mark(Marks& marks) const override { input_->mark(marks); }
  Position position(MarkReader& marks) const override { return input_->position(marks); }
  json identity() const override { return input_->identity(); }
  void restore(MarkReader& marks, int64_t run) override { input_->restore(marks, run); }

 protected:
  Stream<Item>& input() const { return *input_; }

 private:
  std::unique_ptr<Stream<Item>> input_;
};

}  // namespace muster::inline v0_1::data::internal
