// interleave() and flat_map(): the elements of data sets that a function makes of elements. Thread
// safety: as Stream.
#pragma once

#include "muster/data/internal/branch.h"
#include "muster/data/internal/place.h"
#include "muster/data/internal/stream.h"

namespace muster::inline v0_1::data::internal {

class InterleaveStream final : public Stream<StreamElement> {
 public:
  InterleaveStream(NodePtr node, const Run& run);

  void start(int64_t run) override;
  int64_t read(StreamElement* out, int64_t count) override;
  int64_t skip(int64_t count, std::exception_ptr* lost) override;
  int64_t examples_per_element() const override { return 1; }
  void save(IteratorState& saved) const override;
  Position position(IteratorStateReader& saved) const override;
  json identity() const override;
  void restore(IteratorStateReader& saved, int64_t run) override;

 private:
  // A data set being read, and which element of the input it was made of.
  struct Slot {
    std::unique_ptr<Branch> branch;
    int64_t argument = -1;
    SourceIndex tag;     // of that element
    std::string origin;  // "what interleave makes of source element 3"
    OriginMarker marker;
  };
  const Interleave& spec() const { return std::get<Interleave>(node_->spec); }
  // The next element, into `out`; false at the end.
  bool produce(StreamElement* out);
  // Goes on to the next slot.
  void advance();
  // Takes an element of the input and opens the data set that the function makes of it. Leaves an
  // error in `out`.
  void fill(Slot& slot, StreamElement* out);
  // Throws the errors of the function, and of opening.
  void open(Slot& slot, StreamElement& argument, int64_t number);
  // `element` came from the slot.
  void hand_on(Slot& slot, StreamElement& item) const;

  const NodePtr node_;
  const Run& shared_;
  std::unique_ptr<Stream<StreamElement>> input_;
  std::vector<Slot> slots_;
  size_t at_ = 0;          // the slot whose turn it is
  int64_t in_block_ = 0;   // elements of its turn so far
  int64_t arguments_ = 0;  // elements of the input that were taken
  int64_t open_ = 0;       // slots
  bool input_ended_ = false;
  int64_t emitted_ = 0, run_ = 0;
};

}  // namespace muster::inline v0_1::data::internal
