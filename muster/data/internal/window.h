// window(): neighbouring elements together. Thread safety: as Stream.
#pragma once

#include <deque>

#include "muster/data/internal/group_stream.h"
#include "muster/data/internal/held_memory.h"

namespace muster::inline v0_1::data::internal {

class WindowStream final : public GroupStream {
 public:
  WindowStream(NodePtr node, const Run& run) : GroupStream(std::move(node), run) {}

  json identity() const override;

 private:
  const Window& spec() const { return std::get<Window>(node().spec); }
  Next next(Group* group, StreamElement* element, bool wanted) override;
  Dataset made_of(Group& group) const override;
  void clear() override;
  void save_held(IteratorState& saved) const override;
  void restore_held(IteratorStateReader& saved) override;

  // Skips the elements between two windows; false at the end of the input.
  bool pass_gap(std::exception_ptr* lost);
  // Whether the held window is returned: not if it must be full and is not.
  bool is_given() const;
  // Reads until a whole window is held, or the input ends. False if the limit of held elements is
  // reached.
  bool fill();
  // Goes on to the place where the next window begins.
  void advance();
  // The elements of the window that begins with the held ones; data lost between two of them takes
  // the place of the one before.
  std::vector<StreamElement> members() const;

  std::deque<HeldElement> held_;
  HeldMemory memory_{"window()",
                     "take smaller windows, or make the elements in front of it smaller"};
  bool full_ = false;   // the limit was reached before a window
  int64_t gap_ = 0;     // elements to pass over before the next window
  int64_t begins_ = 0;  // the number of the element that the next window begins with
};

}  // namespace muster::inline v0_1::data::internal
