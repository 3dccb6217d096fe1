#include "muster/data/own_reader.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "muster/base/error.h"
#include "muster/data/internal/element_row.h"
#include "muster/data/internal/positioned_source.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::data {
namespace {

int64_t read_own(const OwnReader& own, Element* rows) {
  const torch::NoGradGuard no_grad;
  std::optional<Element> element = own.next();
  if (!element) return 0;
  *rows = internal::element_as_row(*element, "reader");
  return 1;
}

class CountedOwnReader final : public ElementReader {
 public:
  explicit CountedOwnReader(OwnReader own) : own_(std::move(own)) {}
  int64_t read(int64_t, Element* rows) override { return read_own(own_, rows); }

 private:
  const OwnReader own_;
};

class PositionedOwnReader final : public internal::PositionedReader {
 public:
  explicit PositionedOwnReader(OwnReader own) : own_(std::move(own)) {}
  int64_t read(int64_t, Element* rows) override { return read_own(own_, rows); }
  std::string save() const override { return own_.save(); }
  void restore(const std::string& position) override { own_.restore(position); }

 private:
  const OwnReader own_;
};

class OwnReaderSource final : public internal::PositionedSource {
 public:
  explicit OwnReaderSource(std::function<OwnReader()> make) : make_(std::move(make)) {}

  std::string kind() const override { return "reader"; }
  std::unique_ptr<ElementReader> open() const override {
    OwnReader own = make_();
    if (!own.next) throw invalid_argument("from_reader(): the reader has no function `next`");
    if (!own.save != !own.restore) {
      throw invalid_argument("from_reader(): the reader has only one of `save` and `restore`",
                             "give both, or none: then positions are found by counting");
    }
    if (own.save) return std::make_unique<PositionedOwnReader>(std::move(own));
    return std::make_unique<CountedOwnReader>(std::move(own));
  }

 private:
  const std::function<OwnReader()> make_;
};

class TableSource final : public Source {
 public:
  TableSource(int64_t size, std::function<Element(int64_t)> row)
      : size_(size), row_(std::move(row)) {}
  std::string kind() const override { return "rows"; }
  int64_t size() const override { return size_; }
  Element element(int64_t index) const override { return row_(index); }

 private:
  const int64_t size_;
  const std::function<Element(int64_t)> row_;
};

}  // namespace

Dataset from_reader(std::function<OwnReader()> make) {
  if (!make) throw invalid_argument("from_reader() got an empty function");
  return Dataset::from_sequential(std::make_shared<const OwnReaderSource>(std::move(make)));
}

Dataset from_rows(int64_t size, std::function<Element(int64_t)> row) {
  if (size < 0) throw invalid_argument(fmt::format("from_rows() got a size of {}", size));
  if (!row) throw invalid_argument("from_rows() got an empty function");
  return Dataset::from_source(std::make_shared<const TableSource>(size, std::move(row)));
}

Dataset from_elements(std::vector<Element> elements) {
  const auto all = std::make_shared<const std::vector<Element>>(std::move(elements));
  return from_rows(static_cast<int64_t>(all->size()), [all](int64_t index) {
    // Callers may write to an element.
    return (*all)[static_cast<size_t>(index)].transform([](const Value& value) -> Value {
      if (value.is_strings()) return value;
      return value.tensor().detach().clone();
    });
  });
}

}  // namespace muster::inline v0_1::data
