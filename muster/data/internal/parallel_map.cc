#include "muster/data/internal/parallel_map.h"

#include <algorithm>
#include <system_error>

#include "muster/base/error.h"
#include "muster/data/internal/read_ahead.h"
#include "muster/tensor/threads.h"

namespace muster::inline v0_1::data::internal {

ParallelMapStream::ParallelMapStream(std::unique_ptr<Stream<StreamElement>> input, MapStage stage,
                                     const Run& run)
    : input_(std::move(input)),
      stage_(std::move(stage)),
      run_(run),
      calls_(std::max(1, calls_of(std::get<Map>(stage_.node->spec)))),
      ordered_(std::get<Map>(stage_.node->spec).deterministic ||
               std::get<Map>(stage_.node->spec).kept_in_order),
      listed_(!std::get<Map>(stage_.node->spec).deterministic),
      most_(2 * static_cast<size_t>(calls_)) {}

void ParallelMapStream::begin_here() {
  before_.clear();
  input_->save(before_);
  taken_ = 0;
}

void ParallelMapStream::start(int64_t run) {
  stop();
  input_->start(run);
  passed_over_.clear();
  begin_here();
}

void ParallelMapStream::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  has_room_.notify_all();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  entries_.clear();
  stopping_ = input_ended_ = false;
  working_ = 0;
  bytes_ahead_ = 0;
}

void ParallelMapStream::work() {
  enter_thread();
  while (true) {
    std::unique_lock input_lock(input_mutex_);
    std::unique_lock lock(mutex_);
    has_room_.wait(lock, [this] {
      return stopping_ || input_ended_ ||
             (entries_.size() < most_ && bytes_ahead_ < kMostBytesAhead);
    });
    if (stopping_ || input_ended_) return;
    lock.unlock();
    StreamElement item;
    bool has = false;
    try {
      has = input_->read(&item, 1) == 1;
    } catch (...) {
      item.error = current_failure();
      has = true;
    }
    lock.lock();
    if (!has) {
      input_ended_ = true;
      is_ready_.notify_all();
      return;
    }
    Entry& entry = entries_.emplace_back();  // a deque's entries stay where they are
    input_->save(entry.behind);
    const int64_t number = taken_++;
    if (std::binary_search(passed_over_.begin(), passed_over_.end(), number)) {
      entry.ready = entry.handed_on = true;
      is_ready_.notify_all();
      continue;
    }
    ++working_;
    lock.unlock();
    input_lock.unlock();
    stage_.apply(item, run_);
    lock.lock();
    --working_;
    entry.bytes = size_in_bytes(item);
    bytes_ahead_ += entry.bytes;
    entry.item = std::move(item);
    entry.ready = true;
    is_ready_.notify_all();
  }
}

ParallelMapStream::Entry* ParallelMapStream::wait_for_entry(std::unique_lock<std::mutex>& lock) {
  Entry* found = nullptr;
  const auto look = [&] {
    while (!entries_.empty() && entries_.front().handed_on) {
      before_ = std::move(entries_.front().behind);
      entries_.pop_front();
      has_room_.notify_one();
    }
    for (Entry& entry : entries_) {
      if (entry.ready && !entry.handed_on) {
        found = &entry;
        return true;
      }
      if (ordered_) break;
    }
    return input_ended_ && entries_.empty();
  };
  is_ready_.wait(lock, look);
  return found;
}

void ParallelMapStream::hand_on(Entry& entry, StreamElement* out) {
  *out = std::move(entry.item);
  entry.item = {};
  bytes_ahead_ -= entry.bytes;
  entry.handed_on = true;
  while (!entries_.empty() && entries_.front().handed_on) {
    before_ = std::move(entries_.front().behind);
    entries_.pop_front();
  }
  has_room_.notify_one();
}

int64_t ParallelMapStream::read(StreamElement* out, int64_t count) {
  if (threads_.empty()) {
    try {
      for (int i = 0; i < calls_; ++i) threads_.emplace_back([this] { work(); });
    } catch (const std::system_error&) {
      if (threads_.empty()) throw;  // else as many as the system gives
    }
  }
  std::unique_lock lock(mutex_);
  int64_t got = 0;
  for (; got < count; ++got) {
    Entry* entry = wait_for_entry(lock);
    if (entry == nullptr) break;
    hand_on(*entry, out + got);
  }
  return got;
}

int64_t ParallelMapStream::skip(int64_t count, std::exception_ptr* lost) {
  // Before threads run, the input can be passed over without mapping.
  if (threads_.empty() && passed_over_.empty()) {
    const int64_t skipped = input_->skip(count, lost);
    begin_here();
    return skipped;
  }
  StreamElement item;
  int64_t skipped = 0;
  for (; skipped < count && read(&item, 1) == 1; ++skipped) note_lost(item.error, lost);
  return skipped;
}

void ParallelMapStream::save(IteratorState& saved) const {
  const std::lock_guard lock(mutex_);
  if (listed_) {
    const size_t size_at = saved.size();
    saved.push_back(0);
    int64_t offset = 0;
    for (const Entry& entry : entries_) {
      if (entry.handed_on) saved.push_back(offset);
      ++offset;
    }
    // The errors of a restored position that were not reached again.
    const int64_t first = taken_ - static_cast<int64_t>(entries_.size());
    for (const int64_t number : passed_over_) {
      if (number >= taken_) saved.push_back(number - first);
    }
    saved[size_at] = static_cast<int64_t>(saved.size() - size_at) - 1;
  }
  saved.insert(saved.end(), before_.begin(), before_.end());
}

Position ParallelMapStream::position(IteratorStateReader& saved) const {
  int64_t handed_on = 0;
  if (listed_) {
    handed_on = saved.count();
    (void)saved.part(handed_on);
  }
  Position position = input_->position(saved);
  position.element_in_epoch += handed_on * examples_per_element();
  position.elements_total += handed_on * examples_per_element();
  return position;
}

json ParallelMapStream::identity() const {
  if (!listed_) return input_->identity();
  return {{"kind", "map_unordered"}, {"version", 1}, {"input", input_->identity()}};
}

void ParallelMapStream::restore(IteratorStateReader& saved, int64_t run) {
  stop();
  passed_over_.clear();
  if (listed_) {
    const int64_t size = saved.count();
    for (int64_t i = 0; i < size; ++i) passed_over_.push_back(saved.count());
    std::sort(passed_over_.begin(), passed_over_.end());
  }
  input_->restore(saved, run);
  begin_here();
}

}  // namespace muster::inline v0_1::data::internal
