#include "muster/data/internal/zip.h"

#include <algorithm>
#include <utility>

namespace muster::inline v0_1::data::internal {

ZipStream::ZipStream(NodePtr node, const Run& run)
    : node_(std::move(node)),
      branches_(open_branches(*node_, run)),
      first_({numbering_of(*branches_.front()->node), "input 0 of zip"}) {}

void ZipStream::start(int64_t run) {
  ended_ = false;
  for (const auto& branch : branches_) branch->stream->start(run);
}

int64_t ZipStream::read(StreamElement* out, int64_t count) {
  const std::vector<std::string>& keys = std::get<Zip>(node_->spec).keys;
  int64_t got = 0;
  for (; got < count && !ended_; ++got) {
    std::vector<Element> parts;
    StreamElement row;
    std::exception_ptr error;
    for (size_t b = 0; b < branches_.size(); ++b) {
      StreamElement part;
      if (branches_[b]->stream->read(&part, 1) == 0) {
        ended_ = true;
        // Lost elements may have been as many as the others.
        if (!is_lost(error)) return got;
        become_error(out[got], error);
        return got + 1;
      }
      if (b == 0) {
        row.from = part.from;
        first_.mark(row.from, part.from.tag);
      }
      if (error == nullptr) error = part.error;
      if (part.error == nullptr) part.settle();
      parts.push_back(std::move(part.element));
    }
    row.error = error;
    if (error == nullptr && keys.empty()) {
      row.element = Element::tuple(std::move(parts));
    } else if (error == nullptr) {
      std::vector<std::pair<std::string, Element>> entries;
      for (size_t b = 0; b < keys.size(); ++b) entries.emplace_back(keys[b], std::move(parts[b]));
      row.element = Element::dict(std::move(entries));
    }
    out[got] = std::move(row);
  }
  return got;
}

int64_t ZipStream::skip(int64_t count, std::exception_ptr* lost) {
  int64_t skipped = 0;
  for (; skipped < count && !ended_; ++skipped) {
    std::exception_ptr here;
    for (const auto& branch : branches_) {
      if (branch->stream->skip(1, &here) == 1) continue;
      ended_ = true;
      if (here == nullptr) return skipped;
      break;
    }
    note_lost(here, lost);
  }
  return skipped;
}

void ZipStream::save(IteratorState& saved) const {
  saved.push_back(ended_);
  for (const auto& branch : branches_) branch->stream->save(saved);
}

Position ZipStream::position(IteratorStateReader& saved) const {
  saved.next();
  return branches_.front()->stream->position(saved);
}

json ZipStream::identity() const { return identity_of("zip", branches_); }

void ZipStream::restore(IteratorStateReader& saved, int64_t run) {
  ended_ = saved.count() != 0;
  for (const auto& branch : branches_) branch->stream->restore(saved, run);
}

}  // namespace muster::inline v0_1::data::internal
