#include "muster/stores/internal/object_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "muster/base/crc32c.h"

namespace muster::inline v0_1::stores::internal {
namespace {

// The least bytes that a jump reads: the headers of a file are often read in small pieces.
constexpr size_t kLeastJump = size_t{64} << 10;

// By how much each read ahead is larger than the one before it, up to a block. Short files
// therefore cost little. Blocks of one size that were requested together on one network line would
// end together: the line would then stand still until the next ones are on their way. Blocks of
// different sizes do not end together, and neither do the blocks that follow them.
size_t growth(const StoreOptions& limits) {
  return std::max(limits.block_bytes / static_cast<size_t>(std::max(1, limits.blocks_ahead)),
                  kLeastJump);
}

}  // namespace

ObjectReader::ObjectReader(std::shared_ptr<Transfers> transfers, ObjectName object,
                           std::string name, ObjectInfo info, const std::string& beginning)
    : transfers_(std::move(transfers)),
      object_(std::move(object)),
      name_(std::move(name)),
      info_(std::move(info)) {
  if (info_.md5) md5_.emplace();
  auto segment = std::make_shared<Segment>();
  segment->size = beginning.size();
  segment->buffer = take_buffer(segment->size);
  std::ranges::copy(bytes_of(beginning), segment->bytes().begin());
  segment->ready = true;
  Stream& stream = streams_[0];
  stream.next = segment->end();
  stream.next_bytes = growth(transfers_->limits);
  stream.last_use = ++uses_;
  stream.segments.push_back(std::move(segment));
}

ObjectReader::~ObjectReader() {
  std::unique_lock lock(mutex_);
  cancellation_.cancel();
  for (Stream& stream : streams_) drop(stream);
  changed_.wait(lock, [this] { return running_ == 0; });
}

Result<size_t> ObjectReader::read_at(uint64_t offset, MutableBytes out) {
  if (offset >= info_.size || out.empty()) return size_t{0};
  out = out.first(std::min<uint64_t>(out.size(), info_.size - offset));
  const uint64_t begin = offset;
  const MutableBytes all = out;
  std::unique_lock lock(mutex_);
  while (!out.empty()) {
    Stream* stream = find_stream(offset);
    if (stream == nullptr && out.size() >= transfers_->limits.block_bytes) {
      if (Status read = read_directly(lock, offset, out); !read.ok()) return read.error();
      break;
    }
    if (stream == nullptr) stream = &new_stream(offset, out.size());
    stream->last_use = ++uses_;
    while (!stream->segments.empty() && stream->segments.front()->end() <= offset)
      drop_front(*stream);
    fetch_ahead(*stream);
    const auto found =
        std::ranges::find_if(stream->segments, [&](const std::shared_ptr<Segment>& segment) {
          return offset >= segment->begin && offset < segment->end();
        });
    if (found == stream->segments.end())
      return internal_error("no segment of '" + name_ + "' holds byte " + std::to_string(offset));
    const std::shared_ptr<Segment> segment = *found;
    ++segment->waiting;
    changed_.wait(lock, [&] { return segment->ready || segment->error; });
    --segment->waiting;
    if (segment->error) {
      // The next read asks anew.
      if (Stream* failed = find_stream(offset)) drop(*failed);
      return *segment->error;
    }
    const size_t at = offset - segment->begin;
    const size_t count = std::min(out.size(), segment->size - at);
    // A ready segment does not change any more.
    lock.unlock();
    std::memcpy(out.data(), segment->bytes().data() + at, count);
    lock.lock();
    out = out.subspan(count);
    offset += count;
  }
  if (Status good = verify(begin, all); !good.ok()) return good.error();
  return all.size();
}

ObjectReader::Stream* ObjectReader::find_stream(uint64_t offset) {
  for (Stream& stream : streams_) {
    if (stream.last_use == 0 || offset > stream.next) continue;
    const bool held = !stream.segments.empty() && offset >= stream.segments.front()->begin;
    if (!held && offset != stream.next) continue;
    // A read at the end of the stream is sequential.
    if (offset == stream.next) stream.reads_on = true;
    return &stream;
  }
  return nullptr;
}

ObjectReader::Stream& ObjectReader::new_stream(uint64_t offset, size_t wanted) {
  Stream& stream = *std::ranges::min_element(streams_, {}, &Stream::last_use);
  drop(stream);
  stream.next = offset;
  stream.next_bytes = growth(transfers_->limits);
  stream.reads_on = false;
  stream.last_use = ++uses_;
  fetch(stream, std::max(wanted, kLeastJump));
  return stream;
}

void ObjectReader::fetch_ahead(Stream& stream) {
  if (!stream.reads_on) {
    // A read that ends after the first segment has come to its end.
    if (!stream.segments.empty()) return;
    stream.reads_on = true;
  }
  const StoreOptions& limits = transfers_->limits;
  while (stream.next < info_.size &&
         stream.segments.size() < static_cast<size_t>(std::max(1, limits.blocks_ahead))) {
    // One block is always allowed, or a reader could not continue.
    if (!stream.segments.empty() &&
        transfers_->held_ahead.load() + stream.next_bytes > limits.read_ahead_bytes) {
      break;
    }
    fetch(stream, stream.next_bytes);
    stream.next_bytes =
        std::min(stream.next_bytes + growth(limits), std::max(limits.block_bytes, size_t{1}));
  }
}

void ObjectReader::fetch(Stream& stream, size_t bytes) {
  auto segment = std::make_shared<Segment>();
  segment->begin = stream.next;
  const size_t count = std::min<uint64_t>(bytes, info_.size - stream.next);
  segment->size = count;
  segment->buffer = take_buffer(count);
  segment->charged = count;
  transfers_->held_ahead.fetch_add(count);
  stream.next += count;
  stream.segments.push_back(segment);
  ++running_;
  transfers_->threads.submit([this, segment] {
    const Status read = read_block(*transfers_->source, object_, info_, segment->begin,
                                   segment->bytes(), &segment->cancellation);
    std::lock_guard lock(mutex_);
    if (read.ok()) {
      segment->ready = true;
    } else {
      segment->error = read.error();
    }
    --running_;
    changed_.notify_all();
  });
}

void ObjectReader::drop_front(Stream& stream) {
  const std::shared_ptr<Segment>& segment = stream.segments.front();
  // Another thread that shares the reader may wait for it still.
  if (segment->waiting == 0) segment->cancellation.cancel();
  transfers_->held_ahead.fetch_sub(segment->charged);
  const StoreOptions& limits = transfers_->limits;
  // Only a segment that no other thread fills or copies from.
  if (segment->ready && segment.use_count() == 1 &&
      segment->buffer.capacity == limits.block_bytes && spare_.size() < 2) {
    spare_.push_back(std::move(segment->buffer));
  }
  stream.segments.pop_front();
}

ObjectReader::Buffer ObjectReader::take_buffer(size_t bytes) {
  if (!spare_.empty() && bytes <= spare_.back().capacity) {
    Buffer buffer = std::move(spare_.back());
    spare_.pop_back();
    return buffer;
  }
  return {std::make_unique_for_overwrite<std::byte[]>(bytes), bytes};
}

void ObjectReader::drop(Stream& stream) {
  while (!stream.segments.empty()) drop_front(stream);
  stream.last_use = 0;
}

// Reads into `out` itself, blocks in parallel.
Status ObjectReader::read_directly(std::unique_lock<std::mutex>& lock, uint64_t offset,
                                   MutableBytes out) {
  struct Work {
    int waiting = 0;
    std::optional<Error> error;
  };
  Work work;
  const StoreOptions& limits = transfers_->limits;
  while (work.waiting > 0 || (!out.empty() && !work.error)) {
    if (out.empty() || work.error || work.waiting >= std::max(1, limits.blocks_ahead)) {
      const int before = work.waiting;
      changed_.wait(lock, [&] { return work.waiting < before; });
      continue;
    }
    const MutableBytes block = out.first(std::min(out.size(), limits.block_bytes));
    ++work.waiting;
    ++running_;
    transfers_->threads.submit([this, offset, block, &work] {
      const Status read =
          read_block(*transfers_->source, object_, info_, offset, block, &cancellation_);
      std::lock_guard locked(mutex_);
      if (!read.ok() && !work.error) work.error = read.error();
      --work.waiting;
      --running_;
      changed_.notify_all();
    });
    offset += block.size();
    out = out.subspan(block.size());
  }
  return work.error ? Status(*work.error) : Status();
}

Status ObjectReader::verify(uint64_t offset, Bytes bytes) {
  if ((!info_.crc32c && !info_.md5) || offset > verified_ || offset + bytes.size() <= verified_)
    return {};
  const Bytes fresh = bytes.subspan(verified_ - offset);
  if (info_.crc32c) crc_ = extend_crc32c(crc_, fresh);
  if (info_.md5) md5_->add(fresh);
  verified_ += fresh.size();
  if (verified_ < info_.size) return {};
  const bool same =
      (!info_.crc32c || *info_.crc32c == crc_) && (!info_.md5 || *info_.md5 == md5_->finish());
  if (same) return {};
  return corrupt("the bytes of '" + name_ + "' do not have the checksum that its store gives (" +
                     (info_.crc32c ? "CRC-32C" : "MD5") + ")",
                 "they were changed on the way: read it again; if that fails too, write it anew");
}

}  // namespace muster::inline v0_1::stores::internal
