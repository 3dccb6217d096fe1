// Where the records of one tag are: histograms, images, sounds and texts stay in their files until
// somebody looks at them. A list keeps at most 512 places, spread evenly over the run, and always
// the last. Thread safety: as a value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace muster::inline v0_1::board {

// The place of a record.
struct RecordPlace {
  int64_t step = 0;
  double wall = 0;      // Unix time, seconds
  uint32_t file = 0;    // its number among the files of the run
  uint64_t offset = 0;  // the byte at which it begins
};

class RecordList {
 public:
  // `most`: at least 2.
  explicit RecordList(size_t most = 512) : most_(most) {}

  void add(const RecordPlace& place);
  // As ScalarSeries::drop_from().
  void drop_from(int64_t step);
  // The places that are kept, in the order in which they were added.
  std::vector<RecordPlace> places() const;
  // The number of records that were added.
  int64_t count() const { return count_; }

 private:
  size_t most_;
  std::vector<RecordPlace> places_;
  std::optional<RecordPlace> last_;
  int64_t count_ = 0;
  int64_t stride_ = 1;
};

}  // namespace muster::inline v0_1::board
