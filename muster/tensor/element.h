// One element of a dataset: a flat list of values with a structure (leaf, tuple or dict, nested to
// any depth). Thread safety: values; concurrent reads are safe.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/export.h"
#include "muster/tensor/value.h"

namespace muster::inline v0_1 {

// How values are nested. Dict entries are kept sorted by key, so that two dicts with the same keys
// have the same structure.
struct MUSTER_EXPORT Structure {
  // The kinds of nodes.
  enum class Kind { kLeaf, kTuple, kDict };
  Kind kind = Kind::kLeaf;
  std::vector<std::string> keys{};    // kDict: one per child, sorted
  std::vector<Structure> children{};  // kTuple, kDict

  int64_t leaves() const;
  bool operator==(const Structure&) const = default;
  // "({image: *}, *)"
  std::string describe() const;
};

class MUSTER_EXPORT Element {
 public:
  Element() = default;   // an empty tuple
  Element(Value value);  // NOLINT(google-explicit-constructor)
  Element(Tensor tensor)
      : Element(Value(std::move(tensor))) {}  // NOLINT(google-explicit-constructor)
  Element(Strings strings)
      : Element(Value(std::move(strings))) {}  // NOLINT(google-explicit-constructor)
  // A scalar string: {{"name", "ann"}, {"age", age}} are entries of a dict.
  Element(std::string text)
      : Element(Value(std::move(text))) {}             // NOLINT(google-explicit-constructor)
  Element(const char* text) : Element(Value(text)) {}  // NOLINT(google-explicit-constructor)
  Element(std::nullptr_t) = delete;                    // and 0, which would be one
  // Makes a tuple of the parts, in order.
  static Element tuple(std::vector<Element> parts);
  // Makes a dict. Throws InvalidArgument for a key that is given twice.
  static Element dict(std::vector<std::pair<std::string, Element>> entries);
  // REQUIRES: values.size() == structure.leaves(); throws InvalidArgument otherwise.
  static Element make(std::shared_ptr<const Structure> structure, std::vector<Value> values);

  const std::vector<Value>& values() const& { return values_; }
  // On a temporary object, values() and value() return copies, which outlive it.
  std::vector<Value> values() && { return std::move(values_); }
  const Structure& structure() const { return *structure_; }
  const std::shared_ptr<const Structure>& shared_structure() const { return structure_; }

  // Returns the number of parts of a tuple or dict, and 1 for a leaf.
  int64_t size() const;
  // Returns part i of a tuple, or entry i of a dict. Throws InvalidArgument when i is out of range.
  Element part(int64_t i) const;
  // Returns the dict entry `key`. Throws NotFound, with a list of the existing keys.
  Element at(const std::string& key) const;
  bool is_leaf() const { return structure_->kind == Structure::Kind::kLeaf; }
  // REQUIRES: is_leaf(); throws InvalidArgument otherwise.
  const Value& value() const&;
  Value value() &&;

  // Returns the number of rows of a batch. Throws InvalidArgument when its values have different
  // numbers.
  int64_t rows() const;
  // Returns the same structure with every value replaced by fn(value).
  Element transform(const std::function<Value(const Value&)>& fn) const;
  // Returns rows [begin, end) of every value.
  Element slice(int64_t begin, int64_t end) const;
  // Joins elements of one structure along a new axis 0.
  static Element stack(const std::vector<Element>& elements);
  // "({image: float32[64, 28, 28, 1]}, int64[64])"
  std::string describe() const;

 private:
  std::shared_ptr<const Structure> structure_ = empty_tuple();
  std::vector<Value> values_;

  static std::shared_ptr<const Structure> empty_tuple();
};

}  // namespace muster::inline v0_1
