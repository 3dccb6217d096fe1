#include "muster/data/internal/element_codec.h"

#include <cstring>

#include "muster/base/error.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::data::internal {
namespace {

// Native numbers: the file is read by the machine, or the kind of machine, that wrote it.
class Encoder {
 public:
  void number(int64_t value) { append(&value, sizeof value); }
  void text(std::string_view value) {
    number(static_cast<int64_t>(value.size()));
    append(value.data(), value.size());
  }
  void append(const void* bytes, size_t size) { out.append(static_cast<const char*>(bytes), size); }
  void shape(const Shape& shape) {
    number(static_cast<int64_t>(shape.size()));
    for (const int64_t size : shape) number(size);
  }
  void structure(const Structure& structure) {
    number(static_cast<int64_t>(structure.kind));
    number(static_cast<int64_t>(structure.children.size()));
    for (const std::string& key : structure.keys) text(key);
    for (const Structure& child : structure.children) this->structure(child);
  }
  void value(const Value& value) {
    number(value.is_strings() ? 1 : 0);
    if (value.is_strings()) {
      shape(value.strings().shape());
      for (int64_t i = 0; i < value.strings().size(); ++i) text(value.strings()[i]);
      return;
    }
    const Tensor tensor = value.tensor().detach().cpu().contiguous();
    number(static_cast<int64_t>(tensor.scalar_type()));
    shape(tensor.sizes().vec());
    append(tensor.data_ptr(), static_cast<size_t>(tensor.nbytes()));
  }
  void element(const Element& element) {
    structure(element.structure());
    for (const Value& value : element.values()) this->value(value);
  }

  std::string out;
};

class Decoder {
 public:
  explicit Decoder(Bytes bytes) : bytes_(bytes) {}

  int64_t number() {
    int64_t value = 0;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  // At most `most`, so that no result is larger than the existing bytes.
  int64_t count(int64_t most) {
    const int64_t value = number();
    if (value < 0 || value > most) fail();
    return value;
  }
  int64_t left() const { return static_cast<int64_t>(bytes_.size()); }
  Bytes take(size_t size) {
    if (size > bytes_.size()) fail();
    const Bytes taken = bytes_.subspan(0, size);
    bytes_ = bytes_.subspan(size);
    return taken;
  }
  std::string_view text() { return text_of(take(static_cast<size_t>(count(left())))); }
  Shape shape() {
    constexpr int64_t kMostAxes = 64, kMost = int64_t{1} << 48;
    Shape shape(static_cast<size_t>(count(kMostAxes)));
    elements_ = 1;
    for (int64_t& size : shape) {
      size = count(kMost);
      if (__builtin_mul_overflow(elements_, size, &elements_)) fail();
    }
    return shape;
  }
  Structure structure(int depth = 0) {
    constexpr int kDeepest = 100;
    if (depth > kDeepest) fail();
    Structure structure;
    structure.kind = static_cast<Structure::Kind>(count(2));
    const int64_t children = count(left());
    if (structure.kind == Structure::Kind::kLeaf && children != 0) fail();
    for (int64_t c = 0; structure.kind == Structure::Kind::kDict && c < children; ++c) {
      structure.keys.emplace_back(text());
    }
    for (int64_t c = 0; c < children; ++c) {
      structure.children.push_back(this->structure(depth + 1));
    }
    return structure;
  }
  Value value() {
    if (count(1) == 1) {
      Shape shape = this->shape();
      if (elements_ > left()) fail();
      std::vector<int64_t> offsets{0};
      std::string bytes;
      for (int64_t i = elements_; i > 0; --i) {
        bytes += text();
        offsets.push_back(static_cast<int64_t>(bytes.size()));
      }
      return Strings(std::move(shape), std::move(offsets), std::move(bytes));
    }
    const auto dtype = static_cast<DType>(count(static_cast<int64_t>(at::kBFloat16)));
    const Shape shape = this->shape();
    const auto width = static_cast<int64_t>(c10::elementSize(dtype));
    if (elements_ > left() / width) fail();
    Tensor tensor = at::empty(shape, at::TensorOptions(dtype));
    const Bytes content = take(static_cast<size_t>(elements_ * width));
    if (!content.empty()) std::memcpy(tensor.data_ptr(), content.data(), content.size());
    return tensor;
  }

  // All that is left.
  Element element() {
    auto structure = std::make_shared<Structure>(this->structure());
    std::vector<Value> values;
    for (int64_t leaf = structure->leaves(); leaf > 0; --leaf) values.push_back(value());
    if (left() != 0) fail();
    return Element::make(std::move(structure), std::move(values));
  }

  [[noreturn]] static void fail() {
    throw corrupt("a kept element is not what was written", "remove the file of the cache");
  }

 private:
  Bytes bytes_;
  int64_t elements_ = 1;  // of the shape read last
};

}  // namespace

std::string encode_values(const Element& element) {
  Encoder encoder;
  encoder.element(element);
  return std::move(encoder.out);
}

std::string encode_element(const StreamElement& item) {
  Encoder encoder;
  encoder.number(item.from.tag.index);
  encoder.number(item.from.tag.run);
  encoder.element(item.element);
  return std::move(encoder.out);
}

Element decode_values(Bytes bytes) { return Decoder(bytes).element(); }

StreamElement decode_element(Bytes bytes) {
  Decoder decoder(bytes);
  StreamElement item;
  item.from = SourceIndex{decoder.number(), decoder.number()};
  item.element = decoder.element();
  return item;
}

}  // namespace muster::inline v0_1::data::internal
