// For tests: int64 scalars in elements and files of numbers, one per eight bytes.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/data/dataset.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {

using Lists = std::vector<std::vector<int64_t>>;

inline std::vector<int64_t> numbers_in(const Value& value) {
  const Tensor flat = value.tensor().contiguous().view({-1});
  return {flat.data_ptr<int64_t>(), flat.data_ptr<int64_t>() + flat.numel()};
}

// All numbers of an element, in the order of its values.
inline std::vector<int64_t> numbers_in(const Element& element) {
  std::vector<int64_t> all;
  for (const Value& value : element.values()) {
    for (const int64_t number : numbers_in(value)) all.push_back(number);
  }
  return all;
}

inline int64_t first_number(const Element& element) {
  return numbers_in(element.values().front()).front();
}
inline int64_t number(const Element& element) { return element.value().tensor().item<int64_t>(); }

// Skips up to `count` elements of a reader, unreadable ones included.
inline int64_t skip_over(ElementReader& reader, int64_t count) {
  int64_t passed = 0;
  while (passed < count) {
    int64_t more = 1;
    try {
      more = reader.skip(count - passed);
    } catch (const Error&) {  // takes a place
    }
    if (more == 0) break;
    passed += more;
  }
  return passed;
}

// The remaining elements; an error is the list {-1}.
inline Lists rest_of(Iterator& iterator) {
  Lists all;
  while (true) {
    try {
      const auto element = iterator.next();
      if (!element) return all;
      all.push_back(numbers_in(*element));
    } catch (const Error&) {
      all.push_back({-1});
    }
  }
}

inline Lists read(const Dataset& dataset, const IteratorOptions& options = {}) {
  return rest_of(*dataset.iterator(options));
}

inline Element same(const Element& element) { return element; }

// Fails on the elements, or batches, that begin with `number`.
inline Dataset failing_on(int64_t number, const Dataset& dataset) {
  return dataset.map(
      [number](const Element& element) {
        if (first_number(element) == number) throw std::runtime_error("not this one");
        return element;
      },
      {.name = "check"});
}

// The numbers of all elements. Throws the pipeline's errors.
inline std::vector<int64_t> flat(const Dataset& dataset, uint64_t seed = 0) {
  std::vector<int64_t> all;
  const auto iterator = dataset.iterator({.seed = seed});
  while (const auto element = iterator->next()) {
    for (const int64_t number : numbers_in(*element)) all.push_back(number);
  }
  return all;
}

// "40-45" is a file of the numbers 40 … 44. If the path contains "bad", the second number cannot be
// read; if it contains "cut", the numbers after the second cannot. Nothing is on a disk.
class NumberFiles final : public FileFormat {
 public:
  // `seekable`: whether readers report their place.
  explicit NumberFiles(bool seekable) : seekable_(seekable) {}
  std::string kind() const override { return "numbers"; }
  std::unique_ptr<ElementReader> open(FileSystem&, const std::string& path) const override {
    if (path == "missing") throw not_found("there is no file missing");
    const size_t dash = path.find('-');
    return std::make_unique<Reader>(
        std::stoll(path.substr(0, dash)), std::stoll(path.substr(dash + 1)),
        path.find("bad") != std::string::npos, path.find("cut") != std::string::npos, seekable_);
  }

 private:
  class Reader final : public ElementReader {
   public:
    Reader(int64_t begin, int64_t end, bool bad, bool cut, bool seekable)
        : begin_(begin), next_(begin), end_(end), bad_(bad), cut_(cut), seekable_(seekable) {}
    int64_t read(int64_t count, Element* rows) override {
      if (bad_ && next_ == begin_ + 1 && next_ < end_) {
        ++next_;
        throw corrupt("the second number is damaged");
      }
      if (cut_ && next_ == begin_ + 2 && next_ < end_) {
        next_ = end_;
        throw corrupt("the rest is cut off");
      }
      int64_t got = std::min(count, end_ - next_);
      if (cut_ && next_ < begin_ + 2) got = std::min(got, begin_ + 2 - next_);
      if (bad_ && next_ == begin_) got = std::min<int64_t>(got, 1);
      *rows = Element(torch::arange(next_, next_ + got, at::kLong));
      next_ += got;
      return got;
    }
    std::optional<int64_t> tell() const override {
      return seekable_ ? std::optional(8 * (next_ - begin_)) : std::nullopt;
    }
    void seek(int64_t position) override { next_ = begin_ + position / 8; }

   private:
    const int64_t begin_;
    int64_t next_;
    const int64_t end_;
    const bool bad_, cut_, seekable_;
  };

  const bool seekable_;
};

inline Dataset number_files(std::vector<std::string> files, bool seekable = true) {
  return Dataset::from_files(std::move(files), std::make_shared<const NumberFiles>(seekable));
}

}  // namespace muster::inline v0_1
