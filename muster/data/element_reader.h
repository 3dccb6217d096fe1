// Sources that are read from front to back: files of records, lines and rows, and what a program
// makes as it goes. Data that can be read by index is a Source (source.h) instead, which shuffles
// better and resumes at once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "muster/base/export.h"
#include "muster/base/file_system.h"
#include "muster/tensor/element.h"

namespace muster::inline v0_1 {

// Reads elements in order. Thread safety: one thread at a time, not always the same.
class MUSTER_EXPORT ElementReader {
 public:
  virtual ~ElementReader() = default;

  // Reads the next elements, joined along a new axis 0, into memory that nobody else writes to, and
  // returns how many: between 1 and `count`, and 0 only at the end. The reader chooses the number,
  // so that rows of unequal shapes may come one by one. When an element cannot be read, those
  // before it are returned first, and the next call throws Error. The call after a throw goes on
  // behind that element, or is at the end where the format does not say where the next one begins.
  virtual int64_t read(int64_t count, Element* rows) = 0;
  // Skips up to `count` elements and returns how many: between 1 and `count`, and 0 only at the
  // end. This default reads some. An element that cannot be read counts as one, or is an error as
  // in read(); one behind which nothing can be read must be an error, so that the data is not
  // shorter without a word.
  virtual int64_t skip(int64_t count);
  // Where the next element begins: a number that seek() of another reader of the same data
  // understands, such as a byte offset; nullopt when only skip() leads back to it.
  virtual std::optional<int64_t> tell() const { return std::nullopt; }
  // Goes on at a position that tell() returned. REQUIRES: tell() returns a value. Throws Error when
  // the data has no such place.
  virtual void seek(int64_t position);
};

// Data whose elements are read in order, from the beginning each time it is opened. Implement it
// for data of your own; Dataset::from_sequential() takes it. Thread safety: const calls may come
// from several threads at once; every reader is independent of the others and does not outlive the
// source.
class MUSTER_EXPORT SequentialSource {
 public:
  virtual ~SequentialSource() = default;

  // Returns one word for saved positions and messages, such as "generator".
  virtual std::string kind() const = 0;
  virtual std::unique_ptr<ElementReader> open() const = 0;
};

// How the elements of a file are read, for Dataset::from_files(). Thread safety: as
// SequentialSource.
class MUSTER_EXPORT FileFormat {
 public:
  virtual ~FileFormat() = default;

  // Returns one word for saved positions and messages, such as "tfrecord".
  virtual std::string kind() const = 0;
  // Opens a reader at the beginning of the file. Throws Error, naming the path.
  virtual std::unique_ptr<ElementReader> open(FileSystem& files, const std::string& path) const = 0;
};

}  // namespace muster::inline v0_1
