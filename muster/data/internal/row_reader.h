// The part that readers of files of rows share: rows are read into columns, and the error of an
// unreadable row comes after the rows before it. Thread safety: as ElementReader.
#pragma once

#include <optional>
#include <string>

#include "muster/base/error.h"
#include "muster/base/result.h"
#include "muster/data/element_reader.h"

namespace muster::inline v0_1::data::internal {

class RowReader : public ElementReader {
 public:
  int64_t read(int64_t count, Element* rows) final;
  int64_t skip(int64_t count) final;
  std::optional<int64_t> tell() const final;
  void seek(int64_t position) final;

 protected:
  // `most_rows`: how many are read at once at most.
  explicit RowReader(int64_t most_rows) : most_rows_(most_rows) {}

  // Allocates memory for rows.
  virtual void start(int64_t rows) = 0;
  // Reads the next row into the place `at`; false at the end. Throws Error for a row that cannot be
  // read, with the file positioned after it; rows before it stay as they are.
  virtual bool read_row(int64_t at) = 0;
  // The first `rows` rows, of memory for `room`.
  virtual Element finish(int64_t rows, int64_t room) = 0;
  // Passes over the next row; false at the end.
  virtual Result<bool> pass_row() = 0;
  // Where the last row and the next row begin.
  virtual uint64_t row_offset() const = 0;
  virtual uint64_t offset() const = 0;
  virtual Status go_to(uint64_t offset) = 0;

 private:
  const int64_t most_rows_;
  std::optional<Error> failed_;  // of a row that was read, for the next call
  uint64_t failed_offset_ = 0;
};

}  // namespace muster::inline v0_1::data::internal
