#include "muster/data/internal/window.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/data/internal/batch_checks.h"
#include "muster/data/internal/collate.h"

namespace muster::inline v0_1::data::internal {

json WindowStream::identity() const {
  return {{"kind", "window"},        {"version", 1},
          {"size", spec().size},     {"shift", spec().shift},
          {"stride", spec().stride}, {"input", input().identity()}};
}

void WindowStream::clear() {
  held_.clear();
  memory_.clear();
  full_ = false;
  gap_ = begins_ = 0;
}

bool WindowStream::pass_gap(std::exception_ptr* lost) {
  const int64_t passed = input().skip(gap_, lost);
  gap_ -= passed;
  return gap_ == 0;
}

bool WindowStream::fill() {
  while (static_cast<int64_t>(held_.size()) < spec().reach() && !stopping()) {
    const auto place = static_cast<int64_t>(held_.size());
    HeldElement next;
    // Windows begin here; other places are never gone back to.
    if (place % spec().shift == 0) input().save(next.before);
    if (input().read(&next.item, 1) == 0) break;
    next.bytes = next.item.error == nullptr ? hold(next.item) : 0;
    if (!memory_.add(next.bytes)) return false;
    held_.push_back(std::move(next));
  }
  return true;
}

void WindowStream::advance() {
  begins_ += spec().shift;
  const auto passed = std::min(spec().shift, static_cast<int64_t>(held_.size()));
  for (int64_t i = 0; i < passed; ++i) {
    memory_.remove(held_.front().bytes);
    held_.pop_front();
  }
  gap_ = spec().shift - passed;
}

std::vector<StreamElement> WindowStream::members() const {
  std::vector<StreamElement> items;
  const auto stride = static_cast<size_t>(spec().stride);
  for (size_t at = 0; at < held_.size() && static_cast<int64_t>(items.size()) < spec().size;
       at += stride) {
    items.push_back(held_[at].item);
    std::exception_ptr lost;
    for (size_t i = at; i < std::min(at + stride, held_.size()); ++i) {
      note_lost(held_[i].item.error, &lost);
    }
    if (lost != nullptr) become_error(items.back(), lost);
  }
  return items;
}

bool WindowStream::is_given() const {
  return !held_.empty() &&
         (!spec().drop_remainder || static_cast<int64_t>(held_.size()) >= spec().reach());
}

GroupStream::Next WindowStream::next(Group* group, StreamElement* element, bool wanted) {
  if (full_) return Next::kEnd;
  std::exception_ptr lost;
  const bool there = gap_ == 0 || pass_gap(&lost);
  if (lost != nullptr) {
    element->error = lost;
    return Next::kElement;
  }
  if (!there) return Next::kEnd;
  if (!fill()) {
    full_ = true;
    element->error = memory_.error();
    held_.clear();
    return Next::kElement;
  }
  if (!is_given()) {
    for (const HeldElement& held : held_) note_lost(held.item.error, &element->error);
    if (element->error == nullptr) return Next::kEnd;
    held_.clear();
    memory_.clear();
    return Next::kElement;
  }
  group->items = members();
  for (const StreamElement& item : group->items) note_lost(item.error, &element->error);
  if (element->error != nullptr || (spec().fn == nullptr && !wanted)) {
    advance();
    return Next::kElement;
  }
  group->tag = {begins_, run()};
  if (spec().fn != nullptr) {
    group->name = fmt::format("the window that begins at element {}", begins_);
    advance();
    return Next::kGroup;
  }
  element->from = group->tag;
  try {
    rethrow_first(group->items);
    const Place first = group->items.front().from;
    element->element = in_batch(node(), first, [&] { return collate(group->items); });
  } catch (...) {
    element->error = current_failure();
  }
  advance();
  return Next::kElement;
}

Dataset WindowStream::made_of(Group& group) const {
  return spec().fn(
      Dataset::from_source(std::make_shared<const HeldElements>(std::move(group.items))));
}

void WindowStream::save_held(IteratorState& saved) const {
  saved.insert(saved.end(), {begins_, gap_});
  if (held_.empty()) {
    input().save(saved);
  } else {
    saved.insert(saved.end(), held_.front().before.begin(), held_.front().before.end());
  }
}

void WindowStream::restore_held(IteratorStateReader& saved) {
  begins_ = saved.count();
  gap_ = saved.count();
  input().restore(saved, run());
}

}  // namespace muster::inline v0_1::data::internal
