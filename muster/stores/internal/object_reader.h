// Reads one version of an object: blocks ahead of a sequential reader, only the requested bytes for
// random reads, and compares the whole with its checksum. Thread safety: as FileReader, shared by
// threads.
#pragma once

#include <array>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/stores/internal/digest.h"
#include "muster/stores/internal/transfers.h"

namespace muster::inline v0_1::stores::internal {

class ObjectReader : public FileReader {
 public:
  // `beginning` are the first bytes of the object, as many as were read with `info`.
  ObjectReader(std::shared_ptr<Transfers> transfers, ObjectName object, std::string name,
               ObjectInfo info, const std::string& beginning);
  ~ObjectReader() override;

  Result<uint64_t> size() override { return info_.size; }
  Result<size_t> read_at(uint64_t offset, MutableBytes out) override;
  const std::string& name() const override { return name_; }

 private:
  // Memory that is written before it is read.
  struct Buffer {
    std::unique_ptr<std::byte[]> memory;
    size_t capacity = 0;
  };
  // Bytes that are fetched, or were.
  struct Segment {
    uint64_t begin = 0;
    Buffer buffer{};
    size_t size = 0;
    size_t charged = 0;  // to Transfers::held_ahead
    bool ready = false;
    int waiting = 0;  // threads
    std::optional<Error> error{};
    Cancellation cancellation{};
    uint64_t end() const { return begin + size; }
    MutableBytes bytes() const { return {buffer.memory.get(), size}; }
  };
  // A sequential reader: segments without gaps, and where the next begins.
  struct Stream {
    std::deque<std::shared_ptr<Segment>> segments{};
    uint64_t next = 0;
    size_t next_bytes = 0;
    bool reads_on = false;  // has reached the end of its first segment
    uint64_t last_use = 0;
  };

  Stream* find_stream(uint64_t offset);
  Stream& new_stream(uint64_t offset, size_t wanted);
  void fetch_ahead(Stream& stream);
  void fetch(Stream& stream, size_t bytes);
  void drop_front(Stream& stream);
  Buffer take_buffer(size_t bytes);
  void drop(Stream& stream);
  Status read_directly(std::unique_lock<std::mutex>& lock, uint64_t offset, MutableBytes out);
  Status verify(uint64_t offset, Bytes bytes);

  const std::shared_ptr<Transfers> transfers_;
  const ObjectName object_;
  const std::string name_;
  const ObjectInfo info_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int running_ = 0;  // tasks that use this object
  uint64_t uses_ = 0;
  // A few, for threads that share a reader and for formats that read at two places.
  std::array<Stream, 4> streams_;
  // Blocks that were read and are filled again: new memory costs as much as a copy.
  std::vector<Buffer> spare_;
  Cancellation cancellation_;

  // The digest of all bytes up to here, as long as they come in order.
  uint64_t verified_ = 0;
  uint32_t crc_ = 0;
  std::optional<Md5> md5_;
};

}  // namespace muster::inline v0_1::stores::internal
