#include "muster/data/internal/combine.h"


#include "muster/base/error.h"
#include "muster/data/internal/elements.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::data::internal {
namespace {

std::vector<std::unique_ptr<Branch>> open_branches(const Node& node, const Run& run) {
  std::vector<std::unique_ptr<Branch>> branches;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    branches.push_back(std::make_unique<Branch>(
        node.inputs[i], run, RandomKey{id_of("data.branch"), static_cast<uint64_t>(i)}));
  }
  return branches;
}

json identities(const char* kind, const std::vector<std::unique_ptr<Branch>>& branches) {
  json inputs = json::array();
  for (const auto& branch : branches) inputs.push_back(branch->stream->identity());
  return {{"kind", kind}, {"version", 1}, {"inputs", inputs}};
}

}  // namespace

// ---- zip ----

ZipStream::ZipStream(NodePtr node, const Run& run)
    : node_(std::move(node)),
      branches_(open_branches(*node_, run)),
      first_({numbering_of(*branches_.front()->node), "input 0 of zip"}) {}

void ZipStream::start(int64_t run) {
  ended_ = false;
  for (const auto& branch : branches_) branch->stream->start(run);
}

int64_t ZipStream::read(Item* out, int64_t count) {
  const std::vector<std::string>& keys = std::get<Zip>(node_->spec).keys;
  int64_t got = 0;
  for (; got < count && !ended_; ++got) {
    std::vector<Element> parts;
    Item row;
    std::exception_ptr error;
    for (size_t b = 0; b < branches_.size(); ++b) {
      Item part;
      if (branches_[b]->stream->read(&part, 1) == 0) {
        ended_ = true;
        return got;
      }
      if (b == 0) {
        row.from = part.from;
        first_.pass(row.from, part.from.tag);
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

int64_t ZipStream::skip(int64_t count) {
  if (ended_) return 0;
  int64_t least = count;
  for (const auto& branch : branches_) least = std::min(least, branch->stream->skip(least));
  if (least < count) ended_ = true;
  return least;
}

void ZipStream::mark(Marks& marks) const {
  marks.push_back(ended_);
  for (const auto& branch : branches_) branch->stream->mark(marks);
}

Position ZipStream::position(MarkReader& marks) const {
  marks.next();
  return branches_.front()->stream->position(marks);
}

json ZipStream::identity() const { return identities("zip", branches_); }

void ZipStream::restore(MarkReader& marks, int64_t run) {
  ended_ = marks.count() != 0;
  for (const auto& branch : branches_) branch->stream->restore(marks, run);
}

// ---- concatenate ----

ConcatenateStream::ConcatenateStream(const NodePtr& node, const Run& run)
    : branches_(open_branches(*node, run)) {
  for (size_t i = 0; i < branches_.size(); ++i) {
    passages_.emplace_back(Origin{numbering_of(*branches_[i]->node),
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

int64_t ConcatenateStream::read(Item* out, int64_t count) {
  int64_t got = 0;
  while (got < count) {
    const int64_t more = branches_[at_]->stream->read(out + got, count - got);
    for (int64_t i = got; i < got + more; ++i) {
      const Ref tag = out[i].from.tag;
      passages_[at_].pass(out[i].from,
                          at_ == 0 ? tag : tag_within({static_cast<int64_t>(at_), 0}, tag));
    }
    got += more;
    if (got < count && !next_branch()) break;
  }
  emitted_ += got;
  return got;
}

int64_t ConcatenateStream::skip(int64_t count) {
  int64_t got = 0;
  while (got < count) {
    got += branches_[at_]->stream->skip(count - got);
    if (got < count && !next_branch()) break;
  }
  emitted_ += got;
  return got;
}

void ConcatenateStream::mark(Marks& marks) const {
  marks.insert(marks.end(), {static_cast<int64_t>(at_), emitted_, run_});
  branches_[at_]->stream->mark(marks);
}

Position ConcatenateStream::position(MarkReader& marks) const {
  marks.next();
  const int64_t emitted = marks.next();
  return {0, emitted, emitted};
}

json ConcatenateStream::identity() const { return identities("concatenate", branches_); }

void ConcatenateStream::restore(MarkReader& marks, int64_t) {
  const int64_t at = marks.count(), emitted = marks.count();
  run_ = marks.next();
  if (at >= static_cast<int64_t>(branches_.size())) {
    throw invalid_argument(fmt::format("the saved position is in data set {} of {} concatenated",
                                       at, branches_.size()));
  }
  start(run_);
  at_ = static_cast<size_t>(at);
  emitted_ = emitted;
  branches_[at_]->stream->restore(marks, run_);
}

// ---- interleave ----

InterleaveStream::InterleaveStream(NodePtr node, const Run& run)
    : node_(std::move(node)), shared_(run), input_(open_items(node_->input(), run)) {
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

void InterleaveStream::open(Slot& slot, Item& argument, int64_t number) {
  argument.settle();
  Dataset inner = [&] {
    try {
      const torch::NoGradGuard no_grad;
      return spec().fn(argument.element);
    } catch (...) {
      std::rethrow_exception(current_failure(
          fmt::format("{} failed on {} (pass {}), {}, in {}", node_->name,
                      describe_place(argument.from, *node_->input()), argument.from.tag.run,
                      argument.element.describe(), node_->description)));
    }
  }();
  if (spec().parallel) inner = inner.prefetch(std::max<int64_t>(16, 2 * spec().block_length));
  slot.argument = number;
  slot.tag = argument.from.tag;
  slot.branch = std::make_unique<Branch>(
      in_order(inner.node(), spec().in_order), shared_,
      RandomKey{id_of("data.flat_map"), derive_key(static_cast<uint64_t>(slot.tag.index),
                                                   {static_cast<uint64_t>(slot.tag.run)})
                                            .key},
      node_->description + " > ");
  slot.passage = Passage({numbering_of(*slot.branch->node),
                          fmt::format("what {} makes of {}", node_->name,
                                      describe_place(argument.from, *node_->input()))});
  slot.branch->stream->start(run_);
}

void InterleaveStream::hand_on(Slot& slot, Item& item) const {
  slot.passage.pass(item.from, {tag_within(slot.tag, item.from.tag).index, run_});
}

void InterleaveStream::fill(Slot& slot, Item* out) {
  Item argument;
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
    out->error = current_failure();
  }
}

bool InterleaveStream::produce(Item* out) {
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

int64_t InterleaveStream::read(Item* out, int64_t count) {
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

int64_t InterleaveStream::skip(int64_t count) {
  int64_t skipped = 0;
  Item item;
  while (skipped < count) {
    Slot& slot = slots_[at_];
    if (slots_.size() == 1 && slot.branch != nullptr) {
      const int64_t more = slot.branch->stream->skip(count - skipped);
      skipped += more;
      if (more > 0) continue;
    }
    if (!produce(&item)) break;
    ++skipped;
  }
  emitted_ += skipped;
  return skipped;
}

void InterleaveStream::mark(Marks& marks) const {
  marks.insert(marks.end(), {emitted_, run_, static_cast<int64_t>(at_), in_block_, arguments_,
                             input_ended_ ? 1 : 0});
  for (const Slot& slot : slots_) {
    marks.push_back(slot.argument);
    if (slot.branch == nullptr) continue;
    marks.push_back(0);
    const size_t begin = marks.size();
    slot.branch->stream->mark(marks);
    marks[begin - 1] = static_cast<int64_t>(marks.size() - begin);
  }
  input_->mark(marks);
}

Position InterleaveStream::position(MarkReader& marks) const {
  const int64_t emitted = marks.next();
  return {0, emitted, emitted};
}

json InterleaveStream::identity() const {
  return {{"kind", spec().flat ? "flat_map" : "interleave"},
          {"version", 1},
          {"cycle_length", spec().cycle_length},
          {"block_length", spec().block_length},
          {"input", input_->identity()}};
}

void InterleaveStream::restore(MarkReader& marks, int64_t) {
  const int64_t emitted = marks.count(), run = marks.next(), at = marks.count();
  const int64_t in_block = marks.count(), arguments = marks.count(), ended = marks.count();
  if (at >= spec().cycle_length) {
    throw invalid_argument(fmt::format("the saved position is in slot {} of an interleave of {}",
                                       at, spec().cycle_length));
  }
  std::vector<std::pair<size_t, MarkReader>> positions;  // of open slots
  std::vector<int64_t> argument_of(slots_.size(), -1);
  for (size_t s = 0; s < slots_.size(); ++s) {
    argument_of[s] = marks.next();
    if (argument_of[s] >= 0) positions.emplace_back(s, marks.part(marks.count()));
  }
  start(run);
  // The elements the open data sets were made of are read again, in their order.
  std::sort(positions.begin(), positions.end(), [&](const auto& a, const auto& b) {
    return argument_of[a.first] < argument_of[b.first];
  });
  int64_t next = 0;
  for (auto& [s, position] : positions) {
    Item argument;
    const int64_t wanted = argument_of[s];
    if (wanted < next || input_->skip(wanted - next) < wanted - next ||
        input_->read(&argument, 1) == 0 || argument.error != nullptr) {
      throw invalid_argument(fmt::format(
          "the saved position reads a data set made of element {} of {}, which is not there now",
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
  input_->restore(marks, run);
  at_ = static_cast<size_t>(at);
  in_block_ = in_block;
  arguments_ = arguments;
  input_ended_ = ended != 0;
  emitted_ = emitted;
}

}  // namespace muster::inline v0_1::data::internal
