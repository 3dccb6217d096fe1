#include "muster/data/internal/prefetch.h"

#include <optional>

#include "muster/data/internal/read_ahead.h"
#include "muster/tensor/threads.h"

namespace muster::inline v0_1::data::internal {

void PrefetchStream::start(int64_t run) {
  stop();
  input_->start(run);
  position_.clear();
  input_->save(position_);
}

void PrefetchStream::restore(IteratorStateReader& saved, int64_t run) {
  stop();
  input_->restore(saved, run);
  position_.clear();
  input_->save(position_);
}

int64_t PrefetchStream::read(StreamElement* out, int64_t count) {
  int64_t got = 0;
  while (got < count && !ended_) {
    if (queue_ == nullptr) {
      queue_ = std::make_unique<BlockingQueue<Entry>>(static_cast<size_t>(count_));
      try {
        thread_ = std::thread([this] { produce(); });
      } catch (...) {
        queue_.reset();
        throw;
      }
    }
    std::optional<Entry> entry = asked_ ? queue_->pop(*asked_) : queue_->pop();
    if (!entry) {
      ended_ = queue_->closed();
      break;
    }
    out[got++] = std::move(entry->item);
    position_ = std::move(entry->position);
    const std::lock_guard lock(bytes_mutex_);
    bytes_ahead_ -= entry->bytes;
    has_room_.notify_one();
  }
  return got;
}

int64_t PrefetchStream::skip(int64_t count, std::exception_ptr* lost) {
  int64_t got = 0;
  if (queue_ == nullptr && !ended_) {
    got = input_->skip(count, lost);
    position_.clear();
    input_->save(position_);
    return got;
  }
  StreamElement item;
  for (; got < count && read(&item, 1) == 1; ++got) note_lost(item.error, lost);
  return got;
}

void PrefetchStream::stop() {
  if (queue_ != nullptr) queue_->cancel();
  {
    const std::lock_guard lock(bytes_mutex_);
    stopped_ = true;
    has_room_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
  queue_.reset();
  bytes_ahead_ = 0;
  stopped_ = ended_ = false;
}

bool PrefetchStream::wait_for_room() {
  std::unique_lock lock(bytes_mutex_);
  has_room_.wait(lock, [this] { return stopped_ || bytes_ahead_ < kMostBytesAhead; });
  return !stopped_;
}

void PrefetchStream::produce() {
  enter_thread();
  while (wait_for_room()) {
    Entry entry;
    try {
      if (input_->read(&entry.item, 1) == 0) break;
      entry.bytes = size_in_bytes(entry.item);
    } catch (...) {
      entry.item = {};
      entry.item.error = current_failure();
    }
    input_->save(entry.position);
    {
      const std::lock_guard lock(bytes_mutex_);
      bytes_ahead_ += entry.bytes;
    }
    if (!queue_->push(std::move(entry))) return;
  }
  queue_->close();
}

}  // namespace muster::inline v0_1::data::internal
