#include "muster/board/record_list.h"

namespace muster::inline v0_1::board {

void RecordList::add(const RecordPlace& place) {
  last_ = place;
  if (count_++ % stride_ != 0) return;
  if (places_.size() == most_) {
    size_t kept = 0;
    for (size_t at = 0; at < places_.size(); at += 2) places_[kept++] = places_[at];
    places_.resize(kept);
    stride_ *= 2;
    if ((count_ - 1) % stride_ != 0) return;
  }
  places_.push_back(place);
}

void RecordList::drop_from(int64_t step) {
  std::erase_if(places_, [step](const RecordPlace& place) { return place.step >= step; });
  if (last_ && last_->step >= step) {
    last_ = places_.empty() ? std::nullopt : std::optional(places_.back());
  }
}

std::vector<RecordPlace> RecordList::places() const {
  std::vector<RecordPlace> all = places_;
  if (last_ &&
      (all.empty() || all.back().offset != last_->offset || all.back().file != last_->file))
    all.push_back(*last_);
  return all;
}

}  // namespace muster::inline v0_1::board
