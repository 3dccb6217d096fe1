#include "muster/formats/zip.h"

#include <zlib.h>

#include <algorithm>
#include <new>
#include <optional>
#include <set>
#include <tuple>

#include "muster/base/parse_limits.h"
#include "muster/formats/internal/hints.h"

namespace muster::inline v0_1::formats {
namespace {

// Signatures and sizes of the records of the format (APPNOTE 4.3).
constexpr uint32_t kLocal = 0x04034b50, kEntry = 0x02014b50, kEnd = 0x06054b50;
constexpr uint32_t kEnd64 = 0x06064b50, kEnd64Locator = 0x07064b50;
constexpr uint64_t kLocalBytes = 30, kEntryBytes = 46, kEndBytes = 22;
constexpr uint64_t kEnd64Bytes = 56, kEnd64LocatorBytes = 20;
constexpr uint64_t kLongestComment = 65535;
constexpr uint16_t kStored = 0, kDeflated = 8, kEncrypted = 1, kZip64Field = 1;
using internal::kCopyAgain;

template <typename Number>
Number at(std::string_view bytes, size_t offset) {
  return load_little_endian<Number>(bytes.data() + offset);
}

Result<std::string> read_range(FileReader& file, uint64_t offset, uint64_t length) {
  std::string bytes(length, '\0');
  const Status read = file.read_exactly_at(offset, std::as_writable_bytes(std::span(bytes)));
  if (!read.ok()) return read.error();
  return bytes;
}

// The zip64 numbers that replace fields full of ones, in their fixed order. False if one is
// missing.
bool read_zip64(std::string_view extra, ZipEntry* entry) {
  std::vector<uint64_t*> wanted;
  for (uint64_t* field : {&entry->bytes, &entry->packed_bytes, &entry->offset}) {
    if (*field == UINT32_MAX) wanted.push_back(field);
  }
  while (!wanted.empty() && extra.size() >= 4) {
    const auto id = at<uint16_t>(extra, 0);
    const size_t length = at<uint16_t>(extra, 2);
    if (extra.size() - 4 < length) return false;
    if (id == kZip64Field) {
      if (length < 8 * wanted.size()) return false;
      for (size_t i = 0; i < wanted.size(); ++i) *wanted[i] = at<uint64_t>(extra, 4 + 8 * i);
      wanted.clear();
    }
    extra.remove_prefix(4 + length);
  }
  return wanted.empty();
}

// nullopt when `packed` is not a deflate stream of exactly `bytes` bytes.
std::optional<std::string> inflate_raw(std::string_view packed, uint64_t bytes) {
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw std::bad_alloc();
  struct Guard {
    z_stream* stream;
    ~Guard() { inflateEnd(stream); }
  } guard{&stream};
  constexpr size_t kChunk = size_t{1} << 30;  // zlib counts in 32 bits
  // One byte more than there should be, so that a longer content shows.
  std::string content(bytes + 1, '\0');
  size_t read = 0, written = 0;
  int code = Z_OK;
  while (code == Z_OK) {
    const size_t input = std::min(packed.size() - read, kChunk);
    const size_t room = std::min(content.size() - written, kChunk);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data() + read));
    stream.avail_in = static_cast<uInt>(input);
    stream.next_out = reinterpret_cast<Bytef*>(content.data() + written);
    stream.avail_out = static_cast<uInt>(room);
    code = inflate(&stream, Z_NO_FLUSH);
    read += input - stream.avail_in;
    written += room - stream.avail_out;
  }
  if (code == Z_MEM_ERROR) throw std::bad_alloc();
  if (code != Z_STREAM_END || written != bytes || read != packed.size()) return std::nullopt;
  content.resize(written);
  return content;
}

uint32_t crc_of(std::string_view bytes) {
  return static_cast<uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace

Result<ZipReader> ZipReader::open(std::unique_ptr<FileReader> file) {
  ZipReader reader(std::move(file));
  const Status read = reader.read_directory();
  if (!read.ok()) return read.error();
  return reader;
}

Status ZipReader::read_directory() {
  Result<uint64_t> size = file_->size();
  if (!size.ok()) return size.error();
  size_ = size.value();
  Result<Directory> found = find_directory();
  if (!found.ok()) return found.error();
  const Directory& end = found.value();
  const std::string what = "'" + name() + "'";
  if (end.part != 0) {
    return invalid_argument("not supported: " + what + " is part of an archive of several files",
                            "join the parts into one archive first");
  }
  if (end.offset > end.limit || end.bytes > end.limit - end.offset ||
      end.count > end.bytes / kEntryBytes) {
    return corrupt(what + ": its directory of " + std::to_string(end.count) + " entries in " +
                       std::to_string(end.bytes) + " bytes from byte " +
                       std::to_string(end.offset) + " on does not fit into the " +
                       std::to_string(end.limit) + " bytes before its end",
                   kCopyAgain);
  }
  Result<std::string> directory = read_range(*file_, end.offset, end.bytes);
  if (!directory.ok()) return directory.error();
  if (Status added = add_entries(directory.value(), end.count); !added.ok()) return added;
  return set_limits(end.offset);
}

Result<ZipReader::Directory> ZipReader::find_directory() const {
  const uint64_t tail_bytes = std::min(size_, kEndBytes + kLongestComment);
  Result<std::string> tail = read_range(*file_, size_ - tail_bytes, tail_bytes);
  if (!tail.ok()) return tail.error();
  const std::string_view text = tail.value();
  // The last record whose comment reaches to the end of the file.
  std::optional<size_t> found;
  for (size_t from = text.size() - std::min<size_t>(text.size(), kEndBytes) + 1; from-- > 0;) {
    if (text.size() - from < kEndBytes || at<uint32_t>(text, from) != kEnd) continue;
    if (text.size() - from - kEndBytes != at<uint16_t>(text, from + 20)) continue;
    found = from;
    break;
  }
  if (!found) {
    return corrupt(
        "'" + name() + "' is not a zip archive, or is cut short: it has no directory at its end",
        "check that this is the right file; write it with numpy.savez");
  }
  const std::string_view end = text.substr(*found);
  Directory directory{.part = at<uint16_t>(end, 4),
                      .count = at<uint16_t>(end, 10),
                      .bytes = at<uint32_t>(end, 12),
                      .offset = at<uint32_t>(end, 16),
                      .limit = size_ - tail_bytes + *found};
  const bool too_large = directory.count == UINT16_MAX || directory.bytes == UINT32_MAX ||
                         directory.offset == UINT32_MAX;
  if (!too_large || directory.limit < kEnd64LocatorBytes) return directory;
  Result<std::string> locator =
      read_range(*file_, directory.limit - kEnd64LocatorBytes, kEnd64LocatorBytes);
  if (!locator.ok()) return locator.error();
  if (at<uint32_t>(locator.value(), 0) != kEnd64Locator) return directory;
  return find_large_directory(at<uint64_t>(locator.value(), 8),
                              directory.limit - kEnd64LocatorBytes);
}

Result<ZipReader::Directory> ZipReader::find_large_directory(uint64_t end_offset,
                                                             uint64_t limit) const {
  const std::string what = "'" + name() + "'";
  if (limit < kEnd64Bytes || end_offset > limit - kEnd64Bytes) {
    return corrupt(what + ": its zip64 directory is said to be at byte " +
                       std::to_string(end_offset) + ", outside of the file",
                   kCopyAgain);
  }
  Result<std::string> end = read_range(*file_, end_offset, kEnd64Bytes);
  if (!end.ok()) return end.error();
  if (at<uint32_t>(end.value(), 0) != kEnd64) {
    return corrupt(what + " has no zip64 directory at byte " + std::to_string(end_offset) +
                       ", where it should be",
                   kCopyAgain);
  }
  return Directory{.part = at<uint32_t>(end.value(), 16),
                   .count = at<uint64_t>(end.value(), 32),
                   .bytes = at<uint64_t>(end.value(), 40),
                   .offset = at<uint64_t>(end.value(), 48),
                   .limit = end_offset};
}

Status ZipReader::add_entries(std::string_view directory, uint64_t count) {
  std::set<std::string> names;
  for (uint64_t i = 0; i < count; ++i) {
    const auto damaged = [&](const std::string& why) {
      return corrupt("'" + name() + "': entry " + std::to_string(i) + " of its directory " + why,
                     kCopyAgain);
    };
    if (directory.size() < kEntryBytes || at<uint32_t>(directory, 0) != kEntry) {
      return damaged("is damaged");
    }
    ZipEntry entry{.packed_bytes = at<uint32_t>(directory, 20),
                   .bytes = at<uint32_t>(directory, 24),
                   .offset = at<uint32_t>(directory, 42),
                   .crc = at<uint32_t>(directory, 16),
                   .method = at<uint16_t>(directory, 10),
                   .flags = at<uint16_t>(directory, 8)};
    const size_t name_bytes = at<uint16_t>(directory, 28);
    const size_t extra_bytes = at<uint16_t>(directory, 30);
    const size_t all = kEntryBytes + name_bytes + extra_bytes + at<uint16_t>(directory, 32);
    if (directory.size() < all) return damaged("is cut short");
    entry.name = directory.substr(kEntryBytes, name_bytes);
    if (!read_zip64(directory.substr(kEntryBytes + name_bytes, extra_bytes), &entry)) {
      return damaged("('" + entry.name + "') lacks its zip64 sizes");
    }
    if (entry.offset > size_ || size_ - entry.offset < kLocalBytes ||
        entry.packed_bytes > size_ - entry.offset - kLocalBytes) {
      return damaged("('" + entry.name +
                     "') lies outside of the file: " + std::to_string(entry.packed_bytes) +
                     " bytes from byte " + std::to_string(entry.offset) + " on");
    }
    if (!names.insert(entry.name).second) return damaged("has a name again: '" + entry.name + "'");
    directory.remove_prefix(all);
    entries_.push_back(std::move(entry));
  }
  return {};
}

Status ZipReader::set_limits(uint64_t end) {
  std::vector<ZipEntry*> order;
  for (ZipEntry& entry : entries_) order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](const ZipEntry* a, const ZipEntry* b) {
    return std::tie(a->offset, a->name) > std::tie(b->offset, b->name);
  });
  std::string next = "the directory";
  for (ZipEntry* entry : order) {
    entry->limit = end;
    if (entry->offset > end || end - entry->offset < kLocalBytes ||
        entry->packed_bytes > end - entry->offset - kLocalBytes) {
      return corrupt("'" + name() + "': the entry '" + entry->name + "', of " +
                         std::to_string(entry->packed_bytes) + " bytes from byte " +
                         std::to_string(entry->offset) + " on, overlaps " + next +
                         ", which begins at byte " + std::to_string(end),
                     kCopyAgain);
    }
    end = entry->offset;
    next = "'" + entry->name + "'";
  }
  return {};
}

Result<std::string> ZipReader::read(const ZipEntry& entry) const {
  const std::string what = "'" + name() + "', entry '" + entry.name + "'";
  if ((entry.flags & kEncrypted) != 0) {
    return invalid_argument("not supported: " + what + " is encrypted", "unpack the archive first");
  }
  if (entry.method != kStored && entry.method != kDeflated) {
    return invalid_argument(
        "not supported: " + what + " is packed by method " + std::to_string(entry.method),
        "write it with numpy.savez (stored) or numpy.savez_compressed (deflated)");
  }
  Result<std::string> local = read_range(*file_, entry.offset, kLocalBytes);
  if (!local.ok()) return local.error();
  if (at<uint32_t>(local.value(), 0) != kLocal) {
    return corrupt(what + ": there is no entry at byte " + std::to_string(entry.offset),
                   kCopyAgain);
  }
  // The name and extra fields here may differ from those in the directory.
  const uint64_t begin = entry.offset + kLocalBytes + at<uint16_t>(local.value(), 26) +
                         at<uint16_t>(local.value(), 28);
  if (begin > entry.limit || entry.packed_bytes > entry.limit - begin) {
    return corrupt(what + " is cut short: " + std::to_string(entry.packed_bytes) +
                       " bytes expected from byte " + std::to_string(begin) +
                       " on, what follows begins at byte " + std::to_string(entry.limit),
                   kCopyAgain);
  }
  const bool possible = entry.method == kStored ? entry.bytes == entry.packed_bytes
                                                : entry.bytes / kMostUnpacked <= entry.packed_bytes;
  if (!possible) {
    return corrupt(what + " is said to have " + std::to_string(entry.bytes) + " bytes, packed in " +
                       std::to_string(entry.packed_bytes) + ", which cannot be",
                   kCopyAgain);
  }
  Result<std::string> content = read_range(*file_, begin, entry.packed_bytes);
  if (!content.ok()) return content.error();
  if (entry.method == kDeflated) {
    std::optional<std::string> unpacked = inflate_raw(content.value(), entry.bytes);
    if (!unpacked) {
      return corrupt(what + " is a damaged deflate stream, or not one of " +
                         std::to_string(entry.bytes) + " bytes",
                     kCopyAgain);
    }
    content.value() = std::move(*unpacked);
  }
  if (crc_of(content.value()) != entry.crc) {
    return corrupt(what + ": wrong CRC-32 of its content", kCopyAgain);
  }
  return content;
}

}  // namespace muster::inline v0_1::formats
