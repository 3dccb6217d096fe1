#include "muster/tensor/element.h"

#include <utility>

#include "muster/base/error.h"
#include "muster/base/nearest_hint.h"
#include "muster/tensor/features.h"
#include "muster/tensor/leaf_name.h"

namespace muster::inline v0_1 {
namespace {

// Writes `structure` with each leaf replaced by the next of `leaves`.
void render(const Structure& structure, const std::vector<std::string>& leaves, size_t* next,
            std::string* out) {
  switch (structure.kind) {
    case Structure::Kind::kLeaf:
      *out += leaves[(*next)++];
      return;
    case Structure::Kind::kTuple:
    case Structure::Kind::kDict: {
      const bool dict = structure.kind == Structure::Kind::kDict;
      *out += dict ? '{' : '(';
      for (size_t i = 0; i < structure.children.size(); ++i) {
        if (i > 0) *out += ", ";
        if (dict) *out += structure.keys[i] + ": ";
        render(structure.children[i], leaves, next, out);
      }
      *out += dict ? '}' : ')';
    }
  }
}

const std::shared_ptr<const Structure>& leaf_structure() {
  static const auto* const leaf =
      new std::shared_ptr<const Structure>(std::make_shared<const Structure>());
  return *leaf;
}

}  // namespace

int64_t Structure::leaves() const {
  if (kind == Kind::kLeaf) return 1;
  int64_t count = 0;
  for (const Structure& child : children) count += child.leaves();
  return count;
}

std::string Structure::describe() const {
  std::string text;
  size_t next = 0;
  render(*this, std::vector<std::string>(static_cast<size_t>(leaves()), "*"), &next, &text);
  return text;
}

std::shared_ptr<const Structure> Element::empty_tuple() {
  static const auto* const empty = new std::shared_ptr<const Structure>(
      std::make_shared<const Structure>(Structure{.kind = Structure::Kind::kTuple}));
  return *empty;
}

Element::Element(Value value) : structure_(leaf_structure()) {
  values_.push_back(std::move(value));
}

Element Element::tuple(std::vector<Element> parts) {
  Structure structure{.kind = Structure::Kind::kTuple};
  Element result;
  for (Element& part : parts) {
    structure.children.push_back(*part.structure_);
    for (Value& value : part.values_) result.values_.push_back(std::move(value));
  }
  result.structure_ = std::make_shared<const Structure>(std::move(structure));
  return result;
}

Element Element::dict(std::vector<std::pair<std::string, Element>> entries) {
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  Structure structure{.kind = Structure::Kind::kDict};
  Element result;
  for (auto& [key, part] : entries) {
    if (!structure.keys.empty() && structure.keys.back() == key) {
      throw invalid_argument("the key \"" + key + "\" occurs twice in one dict of features");
    }
    structure.keys.push_back(key);
    structure.children.push_back(*part.structure_);
    for (Value& value : part.values_) result.values_.push_back(std::move(value));
  }
  result.structure_ = std::make_shared<const Structure>(std::move(structure));
  return result;
}

Element Element::make(std::shared_ptr<const Structure> structure, std::vector<Value> values) {
  if (structure->leaves() != static_cast<int64_t>(values.size())) {
    throw invalid_argument(fmt::format("the structure {} needs {} values, got {}",
                                       structure->describe(), structure->leaves(), values.size()));
  }
  Element result;
  result.structure_ = std::move(structure);
  result.values_ = std::move(values);
  return result;
}

int64_t Element::size() const {
  return is_leaf() ? 1 : static_cast<int64_t>(structure_->children.size());
}

Element Element::part(int64_t i) const {
  if (i < 0 || i >= size()) {
    throw invalid_argument(
        fmt::format("an element {} has {} parts; there is no part {}", describe(), size(), i));
  }
  if (is_leaf()) return *this;
  int64_t first = 0;
  for (int64_t j = 0; j < i; ++j) first += structure_->children[static_cast<size_t>(j)].leaves();
  const Structure& child = structure_->children[static_cast<size_t>(i)];
  Element result;
  result.structure_ = child.kind == Structure::Kind::kLeaf
                          ? leaf_structure()
                          : std::make_shared<const Structure>(child);
  result.values_.assign(values_.begin() + first, values_.begin() + first + child.leaves());
  return result;
}

Element Element::at(const std::string& key) const {
  if (structure_->kind == Structure::Kind::kDict) {
    for (size_t i = 0; i < structure_->keys.size(); ++i) {
      if (structure_->keys[i] == key) return part(static_cast<int64_t>(i));
    }
  }
  throw not_found(fmt::format("there is no \"{}\" in {}", key, describe()),
                  nearest_hint(key, structure_->keys,
                               "the keys are those the input function gave its features"));
}

Value Element::value() && {
  (void)std::as_const(*this).value();
  return std::move(values_.front());
}

const Value& Element::value() const& {
  if (!is_leaf()) {
    throw invalid_argument("the element " + describe() + " is not a single value",
                           "name the entry you mean");
  }
  return values_.front();
}

int64_t Element::rows() const {
  if (values_.empty()) throw invalid_argument("an empty element has no rows");
  const int64_t rows = values_.front().rows();
  for (const Value& value : values_) {
    if (value.rows() != rows) {
      throw invalid_argument(
          fmt::format("the values of {} have different numbers of rows", describe()),
          "every feature and label of a batch needs the same first dimension");
    }
  }
  return rows;
}

Element Element::transform(const std::function<Value(const Value&)>& fn) const {
  Element result;
  result.structure_ = structure_;
  result.values_.reserve(values_.size());
  for (const Value& value : values_) result.values_.push_back(fn(value));
  return result;
}

Element Element::slice(int64_t begin, int64_t end) const {
  return transform([&](const Value& value) { return value.slice(begin, end); });
}

Element Element::stack(const std::vector<Element>& elements) {
  if (elements.empty()) throw invalid_argument("cannot stack an empty list of elements");
  const Element& first = elements.front();
  for (size_t i = 1; i < elements.size(); ++i) {
    if (!(elements[i].structure() == first.structure())) {
      throw invalid_argument(
          fmt::format("cannot put {} and {} into one batch: their structures differ",
                      first.describe(), elements[i].describe()),
          "every element of a dataset needs the same keys");
    }
  }
  std::vector<Value> values;
  values.reserve(first.values_.size());
  std::vector<Value> column(elements.size());
  for (size_t leaf = 0; leaf < first.values_.size(); ++leaf) {
    for (size_t i = 0; i < elements.size(); ++i) column[i] = elements[i].values_[leaf];
    try {
      values.push_back(Value::stack(column));
    } catch (const Error& error) {
      throw with_leaf_name(error, *first.structure_, leaf);
    }
  }
  return make(first.structure_, std::move(values));
}

std::string Element::describe() const {
  std::vector<std::string> leaves;
  for (const Value& value : values_) leaves.push_back(value.describe());
  std::string text;
  size_t next = 0;
  render(*structure_, leaves, &next, &text);
  return text;
}

namespace {

size_t index_of(const Element& element, const std::string& key) {
  const Structure& structure = element.structure();
  if (structure.kind == Structure::Kind::kDict) {
    size_t leaf = 0;
    for (size_t i = 0; i < structure.keys.size(); ++i) {
      const Structure& child = structure.children[i];
      if (structure.keys[i] == key && child.kind == Structure::Kind::kLeaf) return leaf;
      leaf += static_cast<size_t>(child.leaves());
    }
    throw not_found(
        fmt::format("there is no feature \"{}\"; there are {}", key, element.describe()),
        nearest_hint(key, structure.keys,
                     "use one of the keys the input function gives, or add this one to it"));
  }
  throw not_found(fmt::format("there is no feature \"{}\": the input is {}, without names", key,
                              element.describe()),
                  "use it as a tensor, or let the input function give a dict");
}

}  // namespace

const Value& ElementView::value(const std::string& key) const {
  return element_.values()[index_of(element_, key)];
}

const Tensor& ElementView::operator[](const std::string& key) const { return value(key).tensor(); }

const Tensor& ElementView::tensor() const {
  if (!defined()) {
    throw invalid_argument(
        "there are no labels",
        "in mode predict there never are: return EstimatorSpec::predict(...) before the labels are "
        "used; otherwise let the data give both: Element::tuple({features, labels})");
  }
  if (element_.values().size() != 1) {
    throw invalid_argument(element_.describe() + " is not a single tensor",
                           "name the entry: features[\"key\"]");
  }
  return element_.values().front().tensor();
}

bool ElementView::contains(const std::string& key) const {
  const auto& names = element_.structure().keys;
  return std::find(names.begin(), names.end(), key) != names.end();
}

std::vector<std::string> ElementView::keys() const { return element_.structure().keys; }

int64_t ElementView::rows() const { return defined() ? element_.rows() : 0; }

}  // namespace muster::inline v0_1
