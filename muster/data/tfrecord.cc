#include "muster/data/tfrecord.h"

#include <algorithm>
#include <utility>

#include "muster/base/error.h"
#include "muster/formats/tfrecord.h"

namespace muster::inline v0_1::data {
namespace {

using formats::Compression;
using formats::TfrecordReader;

// One call returns no more: a caller that asks for millions of rows gets them in parts.
constexpr size_t kMaxBytes = 64 * 1024 * 1024;
constexpr int64_t kMaxRows = 1 << 20;

class RecordReader final : public ElementReader {
 public:
  explicit RecordReader(TfrecordReader reader) : reader_(std::move(reader)) {}

  int64_t read(int64_t count, Element* rows) override {
    if (failure_) throw *std::exchange(failure_, std::nullopt);
    count = std::min(count, kMaxRows);
    std::string bytes;
    std::vector<int64_t> offsets;
    bytes.reserve(last_bytes_ + last_bytes_ / 8);  // batches of a file are of about one size
    offsets.reserve(static_cast<size_t>(std::max<int64_t>(count, 0)) + 1);
    offsets.push_back(0);
    int64_t got = 0;
    while (got < count && bytes.size() < kMaxBytes) {
      Bytes payload;
      const Result<bool> read = reader_.read(&payload);
      if (!read.ok()) {
        if (got == 0) throw read.error();
        failure_ = read.error();
        break;
      }
      if (!read.value()) break;
      bytes.append(text_of(payload));
      offsets.push_back(static_cast<int64_t>(bytes.size()));
      begin_ = reader_.offset();
      ++got;
    }
    if (got == 0) return 0;
    last_bytes_ = bytes.size();
    *rows = Value(Strings({got}, std::move(offsets), std::move(bytes)));
    return got;
  }

  int64_t skip(int64_t count) override {
    if (count <= 0) return 0;
    if (failure_) throw Error(*std::exchange(failure_, std::nullopt));
    for (int64_t skipped = 0; skipped < count; ++skipped) {
      const Result<int64_t> passed = reader_.skip(1);
      if (!passed.ok()) {
        if (skipped == 0) throw Error(passed.error());
        failure_ = passed.error();
        return skipped;
      }
      if (passed.value() == 0) return skipped;
      begin_ = reader_.offset();
    }
    return count;
  }

  std::optional<int64_t> tell() const override {
    if (reader_.compression() != Compression::kNone) return std::nullopt;
    return static_cast<int64_t>(failure_ ? begin_ : reader_.offset());
  }

  void seek(int64_t position) override {
    if (position < 0) {
      throw invalid_argument("'" + reader_.name() + "': there is no byte " +
                             std::to_string(position));
    }
    failure_.reset();
    reader_.seek(static_cast<uint64_t>(position)).value();
    begin_ = reader_.offset();
  }

 private:
  TfrecordReader reader_;
  std::optional<Error> failure_;  // of the element that comes next
  uint64_t begin_ = 0;            // of the next element
  size_t last_bytes_ = 0;
};

class TfrecordFormat final : public FileFormat {
 public:
  explicit TfrecordFormat(Compression compression) : compression_(compression) {}

  std::string kind() const override { return "tfrecord"; }
  std::unique_ptr<ElementReader> open(FileSystem& files, const std::string& path) const override {
    return std::make_unique<RecordReader>(TfrecordReader::open(files, path, compression_).value());
  }

 private:
  Compression compression_;
};

}  // namespace

std::shared_ptr<const FileFormat> tfrecord_format(Compression compression) {
  return std::make_shared<TfrecordFormat>(compression);
}

}  // namespace muster::inline v0_1::data
