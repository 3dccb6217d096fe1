#include "muster/bundles/internal/sorted_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/base/crc32c.h"
#include "muster/base/error.h"
#include "muster/formats/wire.h"

namespace muster::inline v0_1::tensorflow::internal {
namespace {

using formats::internal::append_varint;
using formats::internal::WireReader;

constexpr uint64_t kMagic = 0xdb4775248b80fb57;
constexpr size_t kFooterBytes = 48;   // two handles, filled up to 40 bytes, and the magic number
constexpr size_t kTrailerBytes = 5;   // of a block: how it is compressed, and its checksum
constexpr size_t kBlockBytes = 4096;  // after which a writer begins another one
constexpr int kRestartInterval = 16;  // entries from one whole key to the next

// Where a block lies, without its trailer.
struct Handle {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

bool read_handle(WireReader* from, Handle* to) {
  return from->varint(&to->offset) && from->varint(&to->bytes);
}

void append_handle(std::string& out, const Handle& handle) {
  append_varint(out, handle.offset);
  append_varint(out, handle.bytes);
}

class TableReader {
 public:
  TableReader(Bytes file, const std::string& name) : file_(file), name_(name) {}

  std::vector<TableEntry> read() const {
    if (file_.size() < kFooterBytes ||
        load_little_endian<uint64_t>(file_.data() + file_.size() - sizeof(kMagic)) != kMagic) {
      throw corrupt(fmt::format(
          "'{}' is not the index of a TensorFlow checkpoint, or is cut short: it has {} bytes, and "
          "does not end as one",
          name_, file_.size()));
    }
    WireReader footer(file_.subspan(file_.size() - kFooterBytes, kFooterBytes - sizeof(kMagic)));
    Handle about, index;
    if (!read_handle(&footer, &about) || !read_handle(&footer, &index))
      throw damaged(file_.size() - kFooterBytes, "the footer");
    std::vector<TableEntry> entries;
    for (const auto& [last_key, value] : entries_of(index)) {
      WireReader reader(bytes_of(value));
      Handle block;
      if (!read_handle(&reader, &block)) throw damaged(index.offset, "the index of blocks");
      for (TableEntry& entry : entries_of(block)) {
        if (!entries.empty() && entry.first <= entries.back().first)
          throw damaged(block.offset, "the order of keys");
        entries.push_back(std::move(entry));
      }
    }
    return entries;
  }

 private:
  Error damaged(uint64_t offset, const std::string& what) const {
    return corrupt(fmt::format("'{}' is damaged: {} in the block at byte {}", name_, what, offset));
  }

  Bytes block(const Handle& handle) const {
    if (handle.offset > file_.size() || handle.bytes > file_.size() - handle.offset ||
        file_.size() - handle.offset - handle.bytes < kTrailerBytes)
      throw damaged(handle.offset, fmt::format("its size, {} bytes", handle.bytes));
    const Bytes whole = file_.subspan(handle.offset, handle.bytes + kTrailerBytes);
    const auto compression = std::to_integer<uint8_t>(whole[handle.bytes]);
    const auto expected = load_little_endian<uint32_t>(whole.data() + handle.bytes + 1);
    if (masked_crc32c(whole.first(handle.bytes + 1)) != expected)
      throw damaged(handle.offset, "the checksum");
    if (compression != 0) {
      throw invalid_argument(
          fmt::format("not supported: '{}' has compressed blocks (kind {})", name_, compression),
          "save the checkpoint with TensorFlow, which compresses none");
    }
    return whole.first(handle.bytes);
  }

  std::vector<TableEntry> entries_of(const Handle& handle) const {
    const Bytes bytes = block(handle);
    const auto wrong = [&] { return damaged(handle.offset, "an entry"); };
    if (bytes.size() < sizeof(uint32_t)) throw wrong();
    const uint64_t restarts =
        load_little_endian<uint32_t>(bytes.data() + bytes.size() - sizeof(uint32_t));
    if (restarts > bytes.size() / sizeof(uint32_t) - 1) throw wrong();
    WireReader reader(bytes.first(bytes.size() - (restarts + 1) * sizeof(uint32_t)));
    std::vector<TableEntry> entries;
    std::string key;
    while (!reader.done()) {
      uint64_t shared, more, length;
      if (!reader.varint(&shared) || !reader.varint(&more) || !reader.varint(&length) ||
          shared > key.size() || more > reader.left() || length > reader.left() - more)
        throw wrong();
      const Bytes rest = reader.rest();
      key.resize(shared);
      key.append(text_of(rest.first(more)));
      entries.emplace_back(key, text_of(rest.subspan(more, length)));
      reader = WireReader(rest.subspan(more + length));
    }
    return entries;
  }

  const Bytes file_;
  const std::string& name_;
};

class BlockWriter {
 public:
  void add(const std::string& key, std::string_view value) {
    size_t shared = 0;
    if (since_restart_ == kRestartInterval || restarts_.empty()) {
      restarts_.push_back(static_cast<uint32_t>(out_.size()));
      since_restart_ = 0;
    } else {
      const size_t most = std::min(key.size(), last_.size());
      while (shared < most && key[shared] == last_[shared]) ++shared;
    }
    append_varint(out_, shared);
    append_varint(out_, key.size() - shared);
    append_varint(out_, value.size());
    out_.append(key, shared);
    out_ += value;
    last_ = key;
    ++since_restart_;
  }

  size_t size() const { return out_.size(); }
  bool empty() const { return out_.empty(); }
  const std::string& last_key() const { return last_; }

  // Appends the block to `file`, and begins another one.
  Handle end(std::string& file) {
    if (restarts_.empty()) restarts_.push_back(0);
    for (const uint32_t restart : restarts_) append_little_endian(out_, restart);
    append_little_endian(out_, static_cast<uint32_t>(restarts_.size()));
    const Handle handle{file.size(), out_.size()};
    out_ += '\0';  // not compressed
    file += out_;
    append_little_endian(file, masked_crc32c(bytes_of(out_)));
    *this = BlockWriter();
    return handle;
  }

 private:
  std::string out_;
  std::string last_;
  std::vector<uint32_t> restarts_;
  int since_restart_ = 0;
};

}  // namespace

std::vector<TableEntry> read_sorted_table(Bytes file, const std::string& name) {
  return TableReader(file, name).read();
}

std::string write_sorted_table(const std::vector<TableEntry>& entries) {
  std::string file;
  BlockWriter block, index;
  const auto end_block = [&] {
    const std::string last = block.last_key();
    std::string handle;
    append_handle(handle, block.end(file));
    index.add(last, handle);
  };
  for (const auto& [key, value] : entries) {
    block.add(key, value);
    if (block.size() >= kBlockBytes) end_block();
  }
  if (!block.empty()) end_block();
  std::string footer;
  append_handle(footer, BlockWriter().end(file));
  append_handle(footer, index.end(file));
  footer.resize(kFooterBytes - sizeof(kMagic));
  append_little_endian(footer, kMagic);
  return file + footer;
}

}  // namespace muster::inline v0_1::tensorflow::internal
