// The common part of window() and group_by_window(): elements are held until a group of them is
// complete, and a function makes a data set of the group, whose elements are handed on.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "muster/data/internal/branch.h"
#include "muster/data/internal/held_elements.h"
#include "muster/data/internal/place.h"
#include "muster/data/internal/stream.h"

namespace muster::inline v0_1::data::internal {

// A saved position is the held elements before the group under way was taken, and the position in
// the data set made of that group: the group is put together again. Thread safety: as Stream.
class GroupStream : public Stream<StreamElement> {
 public:
  void start(int64_t run) final;
  int64_t read(StreamElement* out, int64_t count) final;
  int64_t skip(int64_t count, std::exception_ptr* lost) final;
  int64_t examples_per_element() const final { return 1; }
  void save(IteratorState& saved) const final;
  Position position(IteratorStateReader& saved) const final;
  void restore(IteratorStateReader& saved, int64_t run) final;

 protected:
  GroupStream(NodePtr node, const Run& run);

  struct Group {
    std::vector<StreamElement> items{};
    int64_t key = 0;
    SourceIndex tag{};   // keyed maps and shuffles inside of it draw by this
    std::string name{};  // "the window that begins at element 3"
  };
  // The result of reading the input.
  enum class Next {
    kGroup,    // a group is complete
    kElement,  // an element is to be handed on unchanged
    kEnd,
  };

  // Reads on until a group is complete. An element that is not `wanted` need not be made.
  virtual Next next(Group* group, StreamElement* element, bool wanted) = 0;
  // The data set that the function of the user makes of the group.
  virtual Dataset made_of(Group& group) const = 0;
  // Nothing is held, as at the beginning of a pass.
  virtual void clear() = 0;
  // Saves and restores the held elements between two groups. When it is restored, the input is at
  // the beginning of its pass.
  virtual void save_held(IteratorState& saved) const = 0;
  virtual void restore_held(IteratorStateReader& saved) = 0;

  const Node& node() const { return *node_; }
  Stream<StreamElement>& input() const { return *input_; }
  int64_t run() const { return run_; }
  bool stopping() const { return shared_.stopping(); }

 private:
  // Opens the next group, or puts an element into `out`; false at the end.
  bool go_on(StreamElement* out, bool* element, bool wanted);
  // Throws the errors of the function, and of opening.
  void open(Group& group);

  const NodePtr node_;
  const Run& shared_;
  std::unique_ptr<Stream<StreamElement>> input_;
  std::unique_ptr<Branch> branch_;  // of the group under way
  SourceIndex tag_;                 // of it
  std::string origin_;              // "what window makes of …"
  OriginMarker marker_;
  IteratorState before_;  // the held elements before it was taken
  int64_t emitted_ = 0, run_ = 0;
};

}  // namespace muster::inline v0_1::data::internal
