#include "muster/data/text_lines.h"

#include <utility>

#include "muster/data/internal/row_reader.h"
#include "muster/formats/lines.h"

namespace muster::inline v0_1::data {
namespace {

constexpr int64_t kMostLines = 1024;
// Lines are handed out when they have this many bytes, however few they are.
constexpr size_t kMostBytes = size_t{1} << 20;

class TextLines final : public internal::RowReader {
 public:
  explicit TextLines(formats::LineReader reader)
      : RowReader(kMostLines), reader_(std::move(reader)) {}

 private:
  void start(int64_t rows) override {
    offsets_.assign(1, 0);
    offsets_.reserve(static_cast<size_t>(rows) + 1);
    bytes_.clear();
  }

  bool read_row(int64_t) override {
    std::string_view line;
    if (bytes_.size() > kMostBytes || !reader_.next(&line).value()) return false;
    bytes_ += line;
    offsets_.push_back(static_cast<int64_t>(bytes_.size()));
    return true;
  }

  Element finish(int64_t rows, int64_t) override {
    return Value(Strings({rows}, std::exchange(offsets_, {}), std::exchange(bytes_, {})));
  }

  Result<bool> pass_row() override {
    std::string_view line;
    return reader_.next(&line);
  }
  uint64_t row_offset() const override { return reader_.line_offset(); }
  uint64_t offset() const override { return reader_.offset(); }
  Status go_to(uint64_t offset) override { return reader_.seek(offset); }

  formats::LineReader reader_;
  std::vector<int64_t> offsets_;
  std::string bytes_;
};

class TextLineFormat final : public FileFormat {
 public:
  explicit TextLineFormat(formats::Compression compression) : compression_(compression) {}

  std::string kind() const override { return "text"; }
  std::unique_ptr<ElementReader> open(FileSystem& files, const std::string& path) const override {
    return std::make_unique<TextLines>(
        formats::LineReader(formats::InputStream::open(files, path, compression_).value()));
  }

 private:
  const formats::Compression compression_;
};

}  // namespace

std::shared_ptr<const FileFormat> text_line_format(formats::Compression compression) {
  return std::make_shared<const TextLineFormat>(compression);
}

}  // namespace muster::inline v0_1::data
