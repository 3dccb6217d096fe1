// cache(path): the elements of the first whole pass, kept in a file that later passes, and later
// runs, read instead. Positions are counts; see cache.h.
#pragma once

#include <optional>

#include "muster/data/internal/node.h"
#include "muster/data/internal/stream.h"
#include "muster/data/internal/stream_element.h"
#include "muster/formats/tfrecord.h"

namespace muster::inline v0_1::data::internal {

class FileCacheStream final : public Stream<StreamElement> {
 public:
  // The file that keeps the elements, and its state.
  struct Keeping {
    Cache spec{};
    NodePtr input{};     // of the cache
    std::string part{};  // of the path, where each replica has elements of its own
    bool global_batches = false;
  };
  // `pass_numbers`: that the tags of one pass of the input carry.
  FileCacheStream(std::unique_ptr<Stream<StreamElement>> input, Keeping keeping,
                  int64_t pass_numbers)
      : input_(std::move(input)), keeping_(std::move(keeping)), pass_numbers_(pass_numbers) {}

  void start(int64_t run) override;
  int64_t read(StreamElement* out, int64_t count) override;
  int64_t skip(int64_t count, std::exception_ptr* lost) override;
  int64_t examples_per_element() const override { return input_->examples_per_element(); }
  void save(IteratorState& saved) const override { saved.insert(saved.end(), {handed_on_, run_}); }
  Position position(IteratorStateReader& saved) const override;
  json identity() const override {
    return {{"kind", "cache"}, {"version", 1}, {"input", input_->identity()}};
  }
  void restore(IteratorStateReader& saved, int64_t run) override;

 private:
  // Determines the pipeline's identity and the place of its file, once: an element may be read for
  // that.
  void identify();
  // Opens the file if there is one. Throws InvalidArgument when another pipeline wrote it.
  bool open();
  // Begins the file.
  void begin();
  // The next element, of the file or of the input, with a tag of this pass: maps after it draw new
  // numbers. False at the end.
  bool next(StreamElement* out);
  // Gives the file up, with a warning, if it cannot be written: the elements are still read.
  void keep_writing(const Status& written);
  // The part of next() for a pass that reads the input.
  bool next_of_input(StreamElement* out);
  // Throws InvalidArgument unless the first record of the file says that this pipeline wrote it.
  void check(Bytes first) const;

  std::unique_ptr<Stream<StreamElement>> input_;
  const Keeping keeping_;
  std::string path_;  // empty before identify()
  json header_;       // the first record: the pipeline that wrote the file
  const int64_t pass_numbers_;
  std::optional<formats::TfrecordReader> reader_;  // of the whole file
  std::optional<formats::TfrecordWriter> writer_;  // while the first pass runs, unless it failed
  bool started_ = false;                           // the file was looked for in this pass
  bool failed_ = false;                            // and neither read nor begun
  int64_t handed_on_ = 0;                          // in this pass
  int64_t run_ = 0;                                // this pass
};

}  // namespace muster::inline v0_1::data::internal
