#include "muster/data/internal/group_by_window.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "muster/base/error.h"
#include "muster/data/internal/call_failure.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::data::internal {

json GroupByWindowStream::identity() const {
  return {{"kind", spec().call},
          {"version", 1},
          {"windows", spec().params},
          {"input", input().identity()}};
}

void GroupByWindowStream::clear() {
  open_.clear();
  memory_.clear();
  full_ = false;
  taken_ = windows_ = 0;
}

std::map<int64_t, GroupByWindowStream::Open>::iterator GroupByWindowStream::put(
    HeldElement&& next) {
  const torch::NoGradGuard no_grad;
  const int64_t key = spec().key(next.item.element);
  auto of_key = open_.find(key);
  if (of_key == open_.end()) {
    const int64_t size = spec().size(key);
    if (size < 1) {
      throw invalid_argument(fmt::format("the window of key {} has size {}", key, size),
                             "a window holds at least one element");
    }
    of_key = open_.emplace(key, Open{.held = {}, .size = size}).first;
  }
  of_key->second.held.push_back(std::move(next));
  return of_key;
}

void GroupByWindowStream::take(std::map<int64_t, Open>::iterator of_key, Group* group) {
  for (HeldElement& held : of_key->second.held) {
    memory_.remove(held.bytes);
    group->items.push_back(std::move(held.item));
  }
  group->key = of_key->first;
  group->tag = {windows_, run()};
  group->name = fmt::format("window {}, of key {}", windows_++, group->key);
  open_.erase(of_key);
}

GroupStream::Next GroupByWindowStream::next(Group* group, StreamElement* element, bool /*wanted*/) {
  while (!full_ && !stopping()) {
    HeldElement next;
    input().save(next.before);
    if (input().read(&next.item, 1) == 0) break;
    next.number = taken_++;
    if (next.item.error != nullptr) {
      *element = std::move(next.item);
      return Next::kElement;
    }
    const uint64_t bytes = next.bytes = hold(next.item);
    next.item.settle();
    const Place from = next.item.from;
    const Element shown = next.item.element;
    try {
      if (!memory_.add(bytes)) {
        full_ = true;
        open_.clear();
        std::rethrow_exception(memory_.error());
      }
      const auto of_key = put(std::move(next));
      if (static_cast<int64_t>(of_key->second.held.size()) < of_key->second.size) continue;
      take(of_key, group);
      return Next::kGroup;
    } catch (...) {
      memory_.remove(bytes);
      element->from = from;
      element->error = full_ ? current_failure() : call_failure(node(), from, shown);
      return Next::kElement;
    }
  }
  if (open_.empty() || stopping()) return Next::kEnd;
  take(open_.begin(), group);
  return Next::kGroup;
}

Dataset GroupByWindowStream::made_of(Group& group) const {
  return spec().reduce(
      group.key,
      Dataset::from_source(std::make_shared<const HeldElements>(std::move(group.items))));
}

std::vector<int64_t> GroupByWindowStream::held_numbers(const IteratorState** before) const {
  std::vector<int64_t> numbers;
  int64_t first = taken_;
  for (const auto& [key, open] : open_) {
    for (const HeldElement& held : open.held) numbers.push_back(held.number);
    if (open.held.front().number > first) continue;
    first = open.held.front().number;
    *before = &open.held.front().before;
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

void GroupByWindowStream::save_held(IteratorState& saved) const {
  const IteratorState* before = nullptr;
  const std::vector<int64_t> numbers = held_numbers(&before);
  saved.insert(saved.end(), {windows_, taken_, static_cast<int64_t>(numbers.size())});
  saved.insert(saved.end(), numbers.begin(), numbers.end());
  if (before == nullptr) {
    input().save(saved);
  } else {
    saved.insert(saved.end(), before->begin(), before->end());
  }
}

void GroupByWindowStream::restore_held(IteratorStateReader& saved) {
  const int64_t windows = saved.count(), taken = saved.count();
  std::vector<int64_t> numbers;
  for (int64_t n = saved.count(); n > 0; --n) numbers.push_back(saved.count());
  input().restore(saved, run());
  int64_t at = numbers.empty() ? taken : numbers.front();
  for (const int64_t number : numbers) {
    HeldElement next;
    next.number = number;
    bool there = number >= at && input().skip(number - at, nullptr) == number - at;
    if (there) {
      input().save(next.before);
      there = input().read(&next.item, 1) == 1 && next.item.error == nullptr;
    }
    if (!there) {
      throw invalid_argument(
          fmt::format(
              "the saved position holds element {} of the input of {}, which no longer exists",
              number, node().name),
          "continue with the data it was saved with");
    }
    at = number + 1;
    next.bytes = hold(next.item);
    next.item.settle();
    memory_.add(next.bytes);
    put(std::move(next));
  }
  if (taken < at || input().skip(taken - at, nullptr) < taken - at) {
    throw invalid_argument(
        fmt::format("the saved position is element {} of the input of {}, which no longer exists",
                    taken, node().name),
        "continue with the data it was saved with");
  }
  windows_ = windows;
  taken_ = taken;
}

}  // namespace muster::inline v0_1::data::internal
