#include "muster/data/libsvm.h"

#include "muster/base/error.h"
#include "muster/data/internal/row_reader.h"
#include "muster/formats/lines.h"
#include "muster/formats/number_text.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::data {
namespace {

constexpr std::string_view kBlanks = " \t";
constexpr size_t kMostShown = 60;
// Dense rows of one read() take at most this many numbers.
constexpr int64_t kMostNumbers = int64_t{1} << 18;

// The next word of `rest`, which continues after it; empty at the end.
std::string_view take_word(std::string_view* rest) {
  const size_t begin = std::min(rest->find_first_not_of(kBlanks), rest->size());
  const size_t end = std::min(rest->find_first_of(kBlanks, begin), rest->size());
  const std::string_view word = rest->substr(begin, end - begin);
  rest->remove_prefix(end);
  return word;
}

class LibsvmRows final : public internal::RowReader {
 public:
  LibsvmRows(formats::LineReader reader, const LibsvmOptions& options)
      : RowReader(options.dense ? std::clamp<int64_t>(kMostNumbers / options.num_features, 1, 1024)
                                : 1),
        reader_(std::move(reader)),
        options_(options) {}

 private:
  void start(int64_t rows) override {
    integers_ = options_.label_dtype == at::kLong;
    labels_ = torch::empty({rows}, options_.label_dtype);
    if (options_.dense) features_ = torch::zeros({rows, options_.num_features});
  }

  bool read_row(int64_t at) override {
    std::string_view line;
    if (!next_line(&line)) return false;
    indices_.clear();
    values_.clear();
    const std::string_view label = take_word(&line);
    const bool good = integers_ ? formats::parse_number(label, labels_.data_ptr<int64_t>() + at)
                                : formats::parse_number(label, labels_.data_ptr<float>() + at);
    if (!good) {
      throw refused(label, fmt::format("is not a {} label", dtype_name(options_.label_dtype)),
                    integers_ ? "take label_dtype = kFloat32 for fractions"
                              : "a line begins with one number, its label");
    }
    int64_t last = -1;
    for (std::string_view word = take_word(&line); !word.empty(); word = take_word(&line)) {
      last = read_pair(word, last);
    }
    if (!options_.dense) return true;
    float* row = features_.data_ptr<float>() + at * options_.num_features;
    for (size_t i = 0; i < indices_.size(); ++i) row[indices_[i]] = values_[i];
    return true;
  }

  // Adds a pair; its index, which must be above `last`.
  int64_t read_pair(std::string_view word, int64_t last) {
    const size_t colon = word.find(':');
    if (word.starts_with("qid:")) {
      throw refused(word, "is a query id, which is not supported", "take the qid: words out");
    }
    int64_t index = 0;
    float value = 0;
    if (colon == std::string_view::npos || !formats::parse_number(word.substr(0, colon), &index) ||
        !formats::parse_number(word.substr(colon + 1), &value)) {
      throw refused(word, "is not an index:value pair",
                    "write a whole number, a colon and a number");
    }
    const int64_t first = options_.zero_based ? 0 : 1;
    if (index < first || index - first >= options_.num_features) {
      throw refused(
          word,
          fmt::format("has an index outside of [{}, {}]", first, options_.num_features - 1 + first),
          index == 0 ? "set zero_based = true if indices count from 0"
                     : "set num_features to the highest index of all files");
    }
    index -= first;
    if (index <= last) {
      throw refused(word, "follows an index that is not smaller",
                    "sort the pairs of every line by their indices");
    }
    indices_.push_back(index);
    values_.push_back(value);
    return index;
  }

  Element finish(int64_t rows, int64_t room) override {
    const Tensor labels = rows == room ? labels_ : labels_.narrow(0, 0, rows).clone();
    if (options_.dense) {
      const Tensor features = rows == room ? features_ : features_.narrow(0, 0, rows).clone();
      return Element::tuple({Element::dict({{"features", features}}), labels});
    }
    const auto pairs = static_cast<int64_t>(indices_.size());
    const Tensor indices = torch::empty({1, pairs}, at::kLong);
    const Tensor values = torch::empty({1, pairs});
    std::copy(indices_.begin(), indices_.end(), indices.data_ptr<int64_t>());
    std::copy(values_.begin(), values_.end(), values.data_ptr<float>());
    return Element::tuple({Element::dict({{"indices", indices}, {"values", values}}), labels});
  }

  Result<bool> pass_row() override {
    std::string_view line;
    try {
      return next_line(&line);
    } catch (const Error& error) {
      return error;
    }
  }
  uint64_t row_offset() const override { return reader_.line_offset(); }
  uint64_t offset() const override { return reader_.offset(); }
  Status go_to(uint64_t offset) override { return reader_.seek(offset); }

  // The next line with something on it, without its comment; false at the end.
  bool next_line(std::string_view* line) {
    while (reader_.next(line).value()) {
      *line = line->substr(0, line->find('#'));
      if (line->find_first_not_of(kBlanks) != std::string_view::npos) return true;
    }
    return false;
  }

  Error refused(std::string_view word, const std::string& why, std::string hint) {
    const std::string shown(word.substr(0, kMostShown));
    return corrupt(fmt::format("{}:{}: '{}{}' {}", reader_.name(), reader_.line_number().value(),
                               shown, shown.size() < word.size() ? "..." : "", why),
                   std::move(hint));
  }

  formats::LineReader reader_;
  const LibsvmOptions options_;
  bool integers_ = false;
  Tensor labels_;
  Tensor features_;
  std::vector<int64_t> indices_;
  std::vector<float> values_;
};

class LibsvmFormat final : public FileFormat {
 public:
  explicit LibsvmFormat(const LibsvmOptions& options) : options_(options) {}

  std::string kind() const override { return "libsvm"; }
  std::unique_ptr<ElementReader> open(FileSystem& files, const std::string& path) const override {
    return std::make_unique<LibsvmRows>(
        formats::LineReader(formats::InputStream::open(files, path, options_.compression).value()),
        options_);
  }

 private:
  const LibsvmOptions options_;
};

}  // namespace

std::shared_ptr<const FileFormat> libsvm_format(const LibsvmOptions& options) {
  constexpr int64_t kMostFeatures = int64_t{1} << 31;
  if (options.num_features < 1 || (options.dense && options.num_features > kMostFeatures)) {
    throw invalid_argument(fmt::format("libsvm_format got num_features = {}", options.num_features),
                           options.num_features < 1 ? "set it to the highest index of all files"
                                                    : "for this many features set dense = false");
  }
  if (options.label_dtype != at::kFloat && options.label_dtype != at::kLong) {
    throw invalid_argument(
        fmt::format("libsvm_format got label_dtype = {}", dtype_name(options.label_dtype)),
        "take kFloat32 or kInt64");
  }
  return std::make_shared<const LibsvmFormat>(options);
}

}  // namespace muster::inline v0_1::data
