// Sources that are read from front to back: files of records, lines and rows, and elements that a
// program produces as it runs. Data that can be read by index is a Source (source.h) instead: it
// shuffles better and resumes at once.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "muster/base/export.h"
#include "muster/base/file_system.h"
#include "muster/tensor/element.h"

namespace muster::inline v0_1 {

// Reads elements in order. Thread safety: one thread at a time; the thread may change.
class MUSTER_EXPORT ElementReader {
 public:
  virtual ~ElementReader() = default;

  // Reads the next elements, joined along a new axis 0, into fresh memory, and returns their
  // number: between 1 and `count`, and 0 only at the end. The reader chooses the number, so rows of
  // unequal shapes may come one by one. When an element cannot be read, the elements before it are
  // returned first, and the next call throws Error. The call after a throw continues after that
  // element; if the format does not tell where the next element begins, it returns 0.
  virtual int64_t read(int64_t count, Element* rows) = 0;
  // Skips up to `count` elements and returns their number: between 1 and `count`, and 0 only at the
  // end. The default reads the elements. An element that cannot be read counts as one, or is an
  // error as in read(). If nothing can be read after it, it must be an error, so that data is never
  // cut short silently.
  virtual int64_t skip(int64_t count);
  // Returns where the next element begins: a number that seek() of another reader of the same data
  // understands, such as a byte offset; nullopt if only skip() can find it.
  virtual std::optional<int64_t> tell() const { return std::nullopt; }
  // Continues at a position that tell() returned. REQUIRES: tell() returns a value. Throws Error if
  // the data has no such position.
  virtual void seek(int64_t position);
};

// Data whose elements are read in order, from the beginning each time it is opened. Implement it
// for your own data; Dataset::from_sequential() takes it. Thread safety: const calls may come from
// several threads at once; readers are independent of each other and do not outlive the source.
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
