#include "muster/data/internal/row_reader.h"

#include <algorithm>
#include <utility>

namespace muster::inline v0_1::data::internal {

int64_t RowReader::read(int64_t count, Element* rows) {
  if (failed_) {
    const Error error = *std::exchange(failed_, std::nullopt);
    throw error;
  }
  const int64_t room = std::min(count, most_rows_);
  start(room);
  int64_t done = 0;
  try {
    while (done < room && read_row(done)) ++done;
  } catch (const Error& error) {
    if (done == 0) throw;
    failed_ = error;
    failed_offset_ = row_offset();
  }
  if (done > 0) *rows = finish(done, room);
  return done;
}

int64_t RowReader::skip(int64_t count) {
  if (count <= 0) return 0;
  if (failed_) throw Error(*std::exchange(failed_, std::nullopt));
  for (int64_t skipped = 0; skipped < count; ++skipped) {
    const Result<bool> row = pass_row();
    if (!row.ok()) {
      if (skipped == 0) throw Error(row.error());
      failed_ = row.error();
      failed_offset_ = row_offset();
      return skipped;
    }
    if (!row.value()) return skipped;
  }
  return count;
}

std::optional<int64_t> RowReader::tell() const {
  return static_cast<int64_t>(failed_ ? failed_offset_ : offset());
}

void RowReader::seek(int64_t position) {
  failed_ = std::nullopt;
  go_to(static_cast<uint64_t>(position)).value();
}

}  // namespace muster::inline v0_1::data::internal
