#include "muster/data/internal/concatenate.h"

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/data/internal/element_kinds.h"
#include "muster/data/internal/zero_rows.h"

namespace muster::inline v0_1::data::internal {

ConcatenateStream::ConcatenateStream(const NodePtr& node, const Run& run)
    : shared_(run), branches_(open_branches(*node, run)) {
  for (size_t i = 0; i < branches_.size(); ++i) {
    markers_.emplace_back(Origin{numbering_of(*branches_[i]->node),
                                 fmt::format("input {} of concatenate", number_of_input(*node, i)),
                                 true, i == 0});
  }
}

void ConcatenateStream::start(int64_t run) {
  run_ = run;
  at_ = 0;
  emitted_ = 0;
  for (const auto& branch : branches_) branch->stream->start(run);  // ends their threads
}

bool ConcatenateStream::next_branch() {
  if (at_ + 1 >= branches_.size()) return false;
  branches_[++at_]->stream->start(run_);
  return true;
}

const std::optional<Element>& ConcatenateStream::kinds_before() {
  for (size_t i = 0; i < at_ && !kinds_; ++i) {
    if ((kinds_ = branches_[i]->node->kinds)) break;
    const auto fresh = open_branch(branches_[i]->node, shared_, i);
    fresh->stream->start(run_);
    StreamElement item;
    for (int tried = 0; !kinds_ && tried < kMostUnreadable; ++tried) {
      if (shared_.stopping() || fresh->stream->read(&item, 1) == 0) break;
      if (item.error == nullptr) kinds_ = kinds_of(item.content());
    }
  }
  return kinds_;
}

void ConcatenateStream::check(StreamElement& item) {
  if (item.error != nullptr) return;
  const Element& content = item.content();
  if (!kinds_before()) {
    kinds_ = kinds_of(content);
  } else if (!same_kinds(*kinds_, content)) {
    const std::string which = fmt::format("input {} of concatenate", at_);
    become_error(item, std::make_exception_ptr(unequal_kinds(which, content, *kinds_)));
  }
}

int64_t ConcatenateStream::read(StreamElement* out, int64_t count) {
  int64_t got = 0;
  while (got < count) {
    const int64_t more = branches_[at_]->stream->read(out + got, count - got);
    for (int64_t i = got; i < got + more; ++i) {
      if (at_ > 0) check(out[i]);
      const SourceIndex tag = out[i].from.tag;
      markers_[at_].mark(out[i].from,
                         at_ == 0 ? tag : tag_within({static_cast<int64_t>(at_), 0}, tag));
    }
    got += more;
    if (got < count && !next_branch()) break;
  }
  emitted_ += got;
  return got;
}

int64_t ConcatenateStream::skip(int64_t count, std::exception_ptr* lost) {
  int64_t got = 0;
  while (got < count) {
    got += branches_[at_]->stream->skip(count - got, lost);
    if (got < count && !next_branch()) break;
  }
  emitted_ += got;
  return got;
}

void ConcatenateStream::save(IteratorState& saved) const {
  saved.insert(saved.end(), {static_cast<int64_t>(at_), emitted_, run_});
  branches_[at_]->stream->save(saved);
}

Position ConcatenateStream::position(IteratorStateReader& saved) const {
  saved.next();
  const int64_t emitted = saved.next();
  return {0, emitted, emitted};
}

json ConcatenateStream::identity() const { return identity_of("concatenate", branches_); }

void ConcatenateStream::restore(IteratorStateReader& saved, int64_t) {
  const int64_t at = saved.count(), emitted = saved.count();
  run_ = saved.next();
  if (at >= static_cast<int64_t>(branches_.size())) {
    throw invalid_argument(fmt::format("the saved position is in data set {} of {} concatenated",
                                       at, branches_.size()));
  }
  start(run_);
  at_ = static_cast<size_t>(at);
  emitted_ = emitted;
  branches_[at_]->stream->restore(saved, run_);
}

}  // namespace muster::inline v0_1::data::internal
