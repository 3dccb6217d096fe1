// group_by_window(): elements of one key together. Thread safety: as Stream.
#pragma once

#include <map>
#include <vector>

#include "muster/data/internal/group_stream.h"
#include "muster/data/internal/held_memory.h"

namespace muster::inline v0_1::data::internal {

class GroupByWindowStream final : public GroupStream {
 public:
  GroupByWindowStream(NodePtr node, const Run& run)
      : GroupStream(std::move(node), run),
        memory_(this->node().name, "take smaller windows, or fewer keys") {}

  json identity() const override;

 private:
  // The elements of one key.
  struct Open {
    std::vector<HeldElement> held{};
    int64_t size = 0;  // this many make a window
  };
  const GroupByWindow& spec() const { return std::get<GroupByWindow>(node().spec); }
  Next next(Group* group, StreamElement* element, bool wanted) override;
  Dataset made_of(Group& group) const override;
  void clear() override;
  void save_held(IteratorState& saved) const override;
  void restore_held(IteratorStateReader& saved) override;

  // Adds the element to the window of its key. Throws what the functions of the user throw.
  std::map<int64_t, Open>::iterator put(HeldElement&& next);
  // Makes a window of the held elements of a key.
  void take(std::map<int64_t, Open>::iterator of_key, Group* group);
  // The numbers of the elements that are held, in their order, and the position before the first.
  std::vector<int64_t> held_numbers(const IteratorState** before) const;

  std::map<int64_t, Open> open_;
  HeldMemory memory_;
  bool full_ = false;    // the limit was reached before an element
  int64_t taken_ = 0;    // elements of the input
  int64_t windows_ = 0;  // made
};

}  // namespace muster::inline v0_1::data::internal
