#include "muster/data/internal/group_stream.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/base/error.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::data::internal {

GroupStream::GroupStream(NodePtr node, const Run& run)
    : node_(std::move(node)), shared_(run), input_(open_elements(node_->input(), run)) {}

void GroupStream::start(int64_t run) {
  branch_.reset();
  emitted_ = 0;
  run_ = run;
  clear();
  input_->start(run);
}

void GroupStream::open(Group& group) {
  tag_ = group.tag;
  const Dataset inner = [&] {
    try {
      const torch::NoGradGuard no_grad;
      return made_of(group);
    } catch (...) {
      std::rethrow_exception(current_failure(fmt::format(
          "{} failed on {} (pass {}), in {}", node_->name, group.name, run_, node_->description)));
    }
  }();
  const RandomKey key{
      id_of("data.group"),
      derive_key(static_cast<uint64_t>(tag_.index), {static_cast<uint64_t>(tag_.run)}).key};
  branch_ = std::make_unique<Branch>(in_order(DatasetAccess::node(inner), true), shared_, key,
                                     node_->description + " > ");
  origin_ = fmt::format("what {} makes of {}", node_->name, group.name);
  marker_ = OriginMarker({numbering_of(*branch_->node), origin_});
  branch_->stream->start(run_);
}

bool GroupStream::go_on(StreamElement* out, bool* element, bool wanted) {
  *out = {};
  before_.clear();
  save_held(before_);
  Group group;
  const Next next = this->next(&group, out, wanted);
  *element = next == Next::kElement;
  if (next != Next::kGroup) return *element;
  try {
    open(group);
  } catch (...) {
    branch_.reset();
    out->error = current_loss();  // all that the data set would give
    *element = true;
  }
  return true;
}

int64_t GroupStream::read(StreamElement* out, int64_t count) {
  int64_t got = 0;
  while (got < count) {
    if (branch_ == nullptr) {
      bool element = false;
      if (!go_on(out + got, &element, true)) break;
      got += element ? 1 : 0;
      continue;
    }
    const int64_t more = branch_->stream->read(out + got, count - got);
    for (int64_t i = got; i < got + more; ++i) {
      if (out[i].error != nullptr) out[i].error = with_origin(out[i].error, origin_);
      marker_.mark(out[i].from, {tag_within(tag_, out[i].from.tag).index, run_});
    }
    got += more;
    if (got < count) branch_.reset();
  }
  emitted_ += got;
  return got;
}

int64_t GroupStream::skip(int64_t count, std::exception_ptr* lost) {
  int64_t skipped = 0;
  StreamElement item;
  while (skipped < count) {
    if (branch_ == nullptr) {
      bool element = false;
      if (!go_on(&item, &element, false)) break;
      if (element) {
        ++skipped;
        note_lost(item.error, lost);
      }
      continue;
    }
    skipped += branch_->stream->skip(count - skipped, lost);
    if (skipped < count) branch_.reset();
  }
  emitted_ += skipped;
  return skipped;
}

void GroupStream::save(IteratorState& saved) const {
  saved.insert(saved.end(), {emitted_, run_, branch_ != nullptr ? 1 : 0});
  if (branch_ == nullptr) {
    save_held(saved);
    return;
  }
  saved.push_back(static_cast<int64_t>(before_.size()));
  saved.insert(saved.end(), before_.begin(), before_.end());
  branch_->stream->save(saved);
}

Position GroupStream::position(IteratorStateReader& saved) const {
  const int64_t emitted = saved.next();
  return {0, emitted, emitted};
}

void GroupStream::restore(IteratorStateReader& saved, int64_t) {
  const int64_t emitted = saved.count();
  start(saved.next());
  const bool in_group = saved.count() != 0;
  if (in_group) {
    IteratorStateReader held = saved.part(saved.count());
    restore_held(held);
    bool element = false;
    StreamElement item;
    if (!held.at_end() || !go_on(&item, &element, true) || element) {
      throw invalid_argument(
          fmt::format(
              "the saved position is in a data set made by {}, whose elements no longer exist",
              node_->name),
          "continue with the data and the functions it was saved with");
    }
    branch_->stream->restore(saved, run_);
  } else {
    restore_held(saved);
  }
  emitted_ = emitted;
}

}  // namespace muster::inline v0_1::data::internal
