// Zip archives, as numpy.savez writes them: entries stored or deflated, zip64 among them.
// ARCHITECTURE.md says why no library reads them. Thread safety: a reader may be shared once open.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/base/file_system.h"
#include "muster/base/result.h"

namespace muster::inline v0_1::formats {

// One file of an archive, as the directory at its end says it.
struct ZipEntry {
  std::string name{};
  uint64_t packed_bytes = 0;
  uint64_t bytes = 0;
  uint64_t offset = 0;  // of its local header
  uint64_t limit = 0;   // where the next entry or the directory begins: its content ends there
  uint32_t crc = 0;     // CRC-32 of the content
  uint16_t method = 0;  // 0 stored, 8 deflated
  uint16_t flags = 0;
};

// The entries of an archive, by name.
class MUSTER_PART_EXPORT ZipReader {
 public:
  // Reads the directory. Corrupt when there is none, when it is damaged, when a name occurs twice,
  // and when entries overlap: a short archive would be many long ones. InvalidArgument for archives
  // of several parts.
  static Result<ZipReader> open(std::unique_ptr<FileReader> file);

  // In the order of the directory.
  const std::vector<ZipEntry>& entries() const { return entries_; }
  // How errors call it: the path.
  const std::string& name() const { return file_->name(); }

  // The whole content of an entry, unpacked. Corrupt when it is damaged, cut short or of another
  // length or CRC-32 than the directory says; InvalidArgument when it is encrypted or packed by
  // another method.
  Result<std::string> read(const ZipEntry& entry) const;

 private:
  explicit ZipReader(std::unique_ptr<FileReader> file) : file_(std::move(file)) {}

  // Where the list of entries is, as the record after it says.
  struct Directory {
    uint64_t part = 0;   // of an archive of several files
    uint64_t count = 0;  // of entries
    uint64_t bytes = 0;
    uint64_t offset = 0;  // from the beginning of the file
    uint64_t limit = 0;   // the list ends here at the latest
  };
  Status read_directory();
  Result<Directory> find_directory() const;
  // Reads the record of zip64, which lies at `end_offset`, before `limit`.
  Result<Directory> find_large_directory(uint64_t end_offset, uint64_t limit) const;
  Status add_entries(std::string_view directory, uint64_t count);
  // Sets the limits of entries, of which the last ends before byte `end`. Corrupt where they
  // overlap.
  Status set_limits(uint64_t end);

  std::unique_ptr<FileReader> file_;
  uint64_t size_ = 0;
  std::vector<ZipEntry> entries_;
};

}  // namespace muster::inline v0_1::formats
