// Sources that are read from front to back: files of records, lines and rows, and whatever a
// program makes as it goes. What can be read by index is a Source (source.h) instead, which
// shuffles better and resumes in no time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "muster/base/file_system.h"
#include "muster/tensor/element.h"

namespace muster::inline v0_1 {

// Reads elements in order. Thread safety: one thread at a time, not always the same.
class ElementReader {
 public:
  virtual ~ElementReader() = default;

  // The next elements, joined along a new axis 0, in memory that nobody else writes to: between 1
  // and `count` of them, 0 only at the end. How many come at once is the reader's choice, so that
  // rows of unequal shapes may come one by one. Throws Error for an element that cannot be read,
  // when it is the first of the call: those before it are returned first. The call after a throw
  // goes on behind that element, or is at the end where the format does not say where the next one
  // begins.
  virtual int64_t read(int64_t count, Element* rows) = 0;
  // Passes over up to `count` elements; fewer only at the end. This one reads them. Elements that
  // cannot be read count as one each.
  virtual int64_t skip(int64_t count);
  // Where the next element begins, a number that means something to seek() of another reader of
  // the same data (a byte offset, say); nullopt when only skip() leads back to it.
  virtual std::optional<int64_t> tell() const { return std::nullopt; }
  // Goes on at what tell() gave. REQUIRES: a tell() with a value. Throws Error when the data has no
  // such place.
  virtual void seek(int64_t position);
};

// Elements read in order, from the beginning each time it is opened. Implement it for data of your
// own; Dataset::from_sequential() takes it. Thread safety: const calls may come from several
// threads at once; every reader is independent of the others and does not outlive the source.
class SequentialSource {
 public:
  virtual ~SequentialSource() = default;

  // One word for saved positions and messages: "generator".
  virtual std::string kind() const = 0;
  virtual std::unique_ptr<ElementReader> open() const = 0;
};

// What is in a file, for Dataset::from_files(). Thread safety: as SequentialSource.
class FileFormat {
 public:
  virtual ~FileFormat() = default;

  // One word for saved positions and messages: "tfrecord".
  virtual std::string kind() const = 0;
  // At the beginning of the file. Throws Error naming the path.
  virtual std::unique_ptr<ElementReader> open(FileSystem& files, const std::string& path) const = 0;
};

}  // namespace muster::inline v0_1
