#include "muster/formats/zip_writer.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>

namespace muster::inline v0_1::formats {
namespace {

// Signatures of the records of the format (APPNOTE 4.3), and the limits of their fields.
constexpr uint32_t kLocalRecord = 0x04034b50, kEntryRecord = 0x02014b50, kEndRecord = 0x06054b50;
constexpr uint64_t kLocalRecordBytes = 30, kFieldHeader = 4, kAlignment = 64;
constexpr uint64_t kMostBytes = UINT32_MAX, kMostEntries = UINT16_MAX - 1;
constexpr uint16_t kVersion = 20, kPaddingField = 0x4246;
// 1980-01-01, the first day there is: the same content gives the same bytes.
constexpr uint32_t kDate = 0x00210000;

template <typename Number>
void put(std::string& out, Number number) {
  append_little_endian<Number>(out, number);
}

uint32_t crc_of(Bytes content) {
  uLong crc = crc32(0, nullptr, 0);
  // zlib counts in 32 bits.
  while (!content.empty()) {
    const Bytes part = content.first(std::min<size_t>(content.size(), size_t{1} << 30));
    crc = crc32(crc, reinterpret_cast<const Bytef*>(part.data()), static_cast<uInt>(part.size()));
    content = content.subspan(part.size());
  }
  return static_cast<uint32_t>(crc);
}

// The common part of the records of an entry and of the directory: from flags to lengths.
std::string common_fields(uint32_t crc, uint64_t bytes, size_t name, size_t extra) {
  std::string out;
  put<uint16_t>(out, 0);  // flags
  put<uint16_t>(out, 0);  // stored
  put<uint32_t>(out, kDate);
  put<uint32_t>(out, crc);
  put<uint32_t>(out, static_cast<uint32_t>(bytes));
  put<uint32_t>(out, static_cast<uint32_t>(bytes));
  put<uint16_t>(out, static_cast<uint16_t>(name));
  put<uint16_t>(out, static_cast<uint16_t>(extra));
  return out;
}

}  // namespace

Status ZipWriter::write(std::string_view bytes) {
  const Status written = sink_.append(bytes_of(bytes));
  if (written.ok()) offset_ += bytes.size();
  return written;
}

Status ZipWriter::add(const std::string& name, Bytes content) {
  if (name.size() > UINT16_MAX) {
    return invalid_argument(
        fmt::format("a zip entry's name has {} bytes; it may have {}", name.size(), UINT16_MAX));
  }
  if (entries_ == kMostEntries)
    return invalid_argument(fmt::format("not supported: more than {} zip entries", kMostEntries));
  const uint64_t fixed = offset_ + kLocalRecordBytes + name.size() + kFieldHeader;
  const uint64_t padding = (kAlignment - fixed % kAlignment) % kAlignment;
  // Every entry of the directory is shorter than twice its name and 128 bytes.
  const uint64_t rest = directory_.size() + 2 * name.size() + 128;
  if (fixed + padding + content.size() + rest > kMostBytes) {
    return invalid_argument(
        fmt::format("not supported: a zip archive of 4 GiB or more; \"{}\" has {} bytes", name,
                    content.size()),
        "write fewer arrays into one archive");
  }
  const uint32_t crc = crc_of(content);
  const uint64_t begin = offset_;
  std::string head;
  put<uint32_t>(head, kLocalRecord);
  put<uint16_t>(head, kVersion);
  head += common_fields(crc, content.size(), name.size(), kFieldHeader + padding) + name;
  put<uint16_t>(head, kPaddingField);
  put<uint16_t>(head, static_cast<uint16_t>(padding));
  head.append(padding, '\0');
  if (Status written = write(head); !written.ok()) return written;
  if (Status written = write(text_of(content)); !written.ok()) return written;
  put<uint32_t>(directory_, kEntryRecord);
  put<uint16_t>(directory_, kVersion);
  put<uint16_t>(directory_, kVersion);
  directory_ += common_fields(crc, content.size(), name.size(), 0);
  put<uint16_t>(directory_, 0);  // comment
  put<uint16_t>(directory_, 0);  // part of the archive
  put<uint16_t>(directory_, 0);  // attributes
  put<uint32_t>(directory_, 0);
  put<uint32_t>(directory_, static_cast<uint32_t>(begin));
  directory_ += name;
  ++entries_;
  return {};
}

Status ZipWriter::finish() {
  std::string end;
  put<uint32_t>(end, kEndRecord);
  put<uint16_t>(end, 0);  // this part and the directory's part
  put<uint16_t>(end, 0);
  put<uint16_t>(end, static_cast<uint16_t>(entries_));
  put<uint16_t>(end, static_cast<uint16_t>(entries_));
  put<uint32_t>(end, static_cast<uint32_t>(directory_.size()));
  put<uint32_t>(end, static_cast<uint32_t>(offset_));
  put<uint16_t>(end, 0);  // comment
  return write(directory_ + end);
}

}  // namespace muster::inline v0_1::formats
