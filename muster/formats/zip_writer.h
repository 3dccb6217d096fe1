// Writes zip archives of stored entries, as PyTorch's readers map them.
// Thread safety: a writer belongs to one thread at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/base/result.h"

namespace muster::inline v0_1::formats {

class ZipWriter {
 public:
  // `sink` must outlive the writer, and is at its beginning.
  explicit ZipWriter(ByteSink& sink) : sink_(sink) {}

  // Adds an entry; its content begins at a multiple of 64 bytes. Returns InvalidArgument for a name
  // of more than 65535 bytes, for more than 65534 entries, and where the archive would have 4 GiB
  // or more, which takes zip64; nothing of the entry is written then.
  Status add(const std::string& name, Bytes content);
  // Writes the directory; the last call.
  Status finish();

 private:
  Status write(std::string_view bytes);

  ByteSink& sink_;
  uint64_t offset_ = 0;
  uint64_t entries_ = 0;
  std::string directory_;
};

}  // namespace muster::inline v0_1::formats
