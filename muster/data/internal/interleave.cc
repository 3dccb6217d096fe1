#include "muster/data/internal/interleave.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "muster/base/error.h"
#include "muster/data/internal/call_failure.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::data::internal {

InterleaveStream::InterleaveStream(NodePtr node, const Run& run)
    : node_(std::move(node)), shared_(run), input_(open_elements(node_->input(), run)) {
  slots_.resize(static_cast<size_t>(spec().cycle_length));
}

void InterleaveStream::start(int64_t run) {
  for (Slot& slot : slots_) slot = {};
  at_ = 0;
  in_block_ = arguments_ = open_ = emitted_ = 0;
  input_ended_ = false;
  run_ = run;
  input_->start(run);
}

void InterleaveStream::advance() {
  at_ = (at_ + 1) % slots_.size();
  in_block_ = 0;
}

void InterleaveStream::open(Slot& slot, StreamElement& argument, int64_t number) {
  argument.settle();
  Dataset inner = [&] {
    try {
      const torch::NoGradGuard no_grad;
      return spec().fn(argument.element);
    } catch (...) {
      std::rethrow_exception(call_failure(*node_, argument.from, argument.element));
    }
  }();
  if (spec().parallel) inner = inner.prefetch(std::max<int64_t>(16, 2 * spec().block_length));
  slot.argument = number;
  slot.tag = argument.from.tag;
  slot.branch = std::make_unique<Branch>(
      in_order(DatasetAccess::node(inner), spec().in_order), shared_,
      RandomKey{id_of("data.flat_map"), derive_key(static_cast<uint64_t>(slot.tag.index),
                                                   {static_cast<uint64_t>(slot.tag.run)})
                                            .key},
      node_->description + " > ");
  slot.origin = fmt::format("what {} makes of {}", node_->name,
                            describe_place(argument.from, *node_->input()));
  slot.marker = OriginMarker({numbering_of(*slot.branch->node), slot.origin});
  slot.branch->stream->start(run_);
}

void InterleaveStream::hand_on(Slot& slot, StreamElement& item) const {
  if (item.error != nullptr) item.error = with_origin(item.error, slot.origin);
  slot.marker.mark(item.from, {tag_within(slot.tag, item.from.tag).index, run_});
}

void InterleaveStream::fill(Slot& slot, StreamElement* out) {
  StreamElement argument;
  if (input_->read(&argument, 1) == 0) {
    input_ended_ = true;
    return;
  }
  const int64_t number = arguments_++;
  if (argument.error != nullptr) {
    out->error = argument.error;
    return;
  }
  try {
    open(slot, argument, number);
    ++open_;
  } catch (...) {
    slot = {};
    out->error = current_loss();  // all that the data set would give
  }
}

bool InterleaveStream::produce(StreamElement* out) {
  while (!input_ended_ || open_ > 0) {
    Slot& slot = slots_[at_];
    if (slot.branch != nullptr) {
      if (slot.branch->stream->read(out, 1) == 1) {
        hand_on(slot, *out);
        if (++in_block_ == spec().block_length) advance();
        return true;
      }
      slot = {};
      --open_;
      advance();
    } else if (!input_ended_) {
      *out = {};
      fill(slot, out);
      if (out->error != nullptr) return true;
    } else {
      advance();
    }
  }
  return false;
}

int64_t InterleaveStream::read(StreamElement* out, int64_t count) {
  int64_t got = 0;
  // Data sets that come one after another are read in blocks.
  const bool in_blocks = slots_.size() == 1 && !spec().parallel;
  while (got < count) {
    Slot& slot = slots_[at_];
    if (in_blocks && slot.branch != nullptr) {
      const int64_t more = slot.branch->stream->read(out + got, count - got);
      for (int64_t i = got; i < got + more; ++i) hand_on(slot, out[i]);
      got += more;
      if (more > 0) continue;
    }
    if (!produce(out + got)) break;
    ++got;
  }
  emitted_ += got;
  return got;
}

int64_t InterleaveStream::skip(int64_t count, std::exception_ptr* lost) {
  int64_t skipped = 0;
  StreamElement item;
  while (skipped < count) {
    Slot& slot = slots_[at_];
    if (slots_.size() == 1 && slot.branch != nullptr) {
      const int64_t more = slot.branch->stream->skip(count - skipped, lost);
      skipped += more;
      if (more > 0) continue;
    }
    if (!produce(&item)) break;
    note_lost(item.error, lost);
    ++skipped;
  }
  emitted_ += skipped;
  return skipped;
}

void InterleaveStream::save(IteratorState& saved) const {
  saved.insert(saved.end(), {emitted_, run_, static_cast<int64_t>(at_), in_block_, arguments_,
                             input_ended_ ? 1 : 0});
  for (const Slot& slot : slots_) {
    saved.push_back(slot.argument);
    if (slot.branch == nullptr) continue;
    saved.push_back(0);
    const size_t begin = saved.size();
    slot.branch->stream->save(saved);
    saved[begin - 1] = static_cast<int64_t>(saved.size() - begin);
  }
  input_->save(saved);
}

Position InterleaveStream::position(IteratorStateReader& saved) const {
  const int64_t emitted = saved.next();
  return {0, emitted, emitted};
}

json InterleaveStream::identity() const {
  return {{"kind", spec().flat ? "flat_map" : "interleave"},
          {"version", 1},
          {"cycle_length", spec().cycle_length},
          {"block_length", spec().block_length},
          {"input", input_->identity()}};
}

void InterleaveStream::restore(IteratorStateReader& saved, int64_t) {
  const int64_t emitted = saved.count(), run = saved.next(), at = saved.count();
  const int64_t in_block = saved.count(), arguments = saved.count(), ended = saved.count();
  if (at >= spec().cycle_length) {
    throw invalid_argument(fmt::format("the saved position is in slot {} of an interleave of {}",
                                       at, spec().cycle_length));
  }
  std::vector<std::pair<size_t, IteratorStateReader>> positions;  // of open slots
  std::vector<int64_t> argument_of(slots_.size(), -1);
  for (size_t s = 0; s < slots_.size(); ++s) {
    argument_of[s] = saved.next();
    if (argument_of[s] >= 0) positions.emplace_back(s, saved.part(saved.count()));
  }
  start(run);
  // The elements the open data sets were made of are read again, in their order.
  std::sort(positions.begin(), positions.end(), [&](const auto& a, const auto& b) {
    return argument_of[a.first] < argument_of[b.first];
  });
  int64_t next = 0;
  for (auto& [s, position] : positions) {
    StreamElement argument;
    const int64_t wanted = argument_of[s];
    if (wanted < next || input_->skip(wanted - next, nullptr) < wanted - next ||
        input_->read(&argument, 1) == 0 || argument.error != nullptr) {
      throw invalid_argument(fmt::format(
          "the saved position reads a data set made from element {} of {}, which no longer exists",
          wanted, node_->input()->description));
    }
    next = wanted + 1;
    open(slots_[s], argument, wanted);
    ++open_;
    slots_[s].branch->stream->restore(position, run_);
    if (!position.at_end()) {
      throw invalid_argument(
          fmt::format("the saved position in what {} makes of element {} has more numbers than "
                      "that has places for: it makes another pipeline now",
                      node_->name, wanted));
    }
  }
  input_->restore(saved, run);
  at_ = static_cast<size_t>(at);
  in_block_ = in_block;
  arguments_ = arguments;
  input_ended_ = ended != 0;
  emitted_ = emitted;
}

}  // namespace muster::inline v0_1::data::internal
