// Elements read from front to back: of files one after another, or of a source of its own.
#pragma once

#include "muster/data/internal/node.h"
#include "muster/data/internal/positioned_source.h"
#include "muster/data/internal/run.h"
#include "muster/data/internal/stream.h"
#include "muster/data/internal/stream_element.h"

namespace muster::inline v0_1::data::internal {

// Files read one after another number their elements so: a file's number keeps them apart whichever
// worker reads them.
inline constexpr int kBitsInFile = 40;
inline int64_t file_of(int64_t index) { return index >> kBitsInFile; }
inline int64_t index_in_file(int64_t index) { return index & ((int64_t{1} << kBitsInFile) - 1); }

// A place in it is a file, the last block's beginning as its reader reported it, and a count of
// elements from there on: a file is not read again from its beginning if its format can report a
// place.
class SequentialStream final : public Stream<StreamElement> {
 public:
  // Both outlive the stream.
  SequentialStream(const Node& node, const Run& run);

  void start(int64_t run) override;
  int64_t read(StreamElement* out, int64_t count) override;
  int64_t skip(int64_t count, std::exception_ptr* lost) override;
  int64_t examples_per_element() const override { return 1; }
  void save(IteratorState& saved) const override;
  Position position(IteratorStateReader& saved) const override;
  json identity() const override;
  void restore(IteratorStateReader& saved, int64_t run) override;

 private:
  size_t files() const { return from_files_ == nullptr ? 1 : from_files_->files.size(); }
  bool open();  // false at the end of the last file
  void close();
  void next_file();
  void remember_place();
  // Reads the next block of the file; false at its end, which closes it.
  bool next_block(int64_t count);
  // The exception that replaces an element, made from the exception being handled. In a file it
  // looks at the following elements: an error after which more elements come is a DataLost. An
  // error of a source is a DataLost too.
  std::exception_ptr take_place();
  // The exception being handled, as an Error that names the file, or the source, and the element.
  std::exception_ptr failure() const;
  // Rows at once, so that small elements cost little; batches request more.
  static constexpr int64_t kBlock = 64;

  const Node& node_;
  const Run& iterator_run_;
  const FromFiles* from_files_;
  const SequentialSource* source_ = nullptr;
  const PositionedSource* positioned_ = nullptr;  // source_, if its positions are texts

  std::unique_ptr<ElementReader> reader_;  // of file_; null before its first element
  size_t file_ = 0;
  int64_t in_file_ = 0;                // its elements so far
  int64_t total_ = 0;                  // of all files
  int64_t place_ = -1, place_at_ = 0;  // tell(), and the element it is the place of
  std::string own_place_;              // the same, of a source with texts
  std::shared_ptr<Element> block_;     // being handed out
  std::exception_ptr next_error_;      // of the element that comes next, found by looking there
  int64_t row_ = 0, rows_ = 0;
  int64_t run_ = 0;
};

}  // namespace muster::inline v0_1::data::internal
