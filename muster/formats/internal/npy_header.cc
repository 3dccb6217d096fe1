#include "muster/formats/internal/npy_header.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "muster/base/strings.h"

namespace muster::inline v0_1::formats::internal {
namespace {

constexpr size_t kMostAxes = 64;  // numpy's own limit

// Reads the values that may be in the dict: texts, True and False, tuples of whole numbers.
class DictReader {
 public:
  explicit DictReader(std::string_view text) : text_(text) {}

  bool take(char letter) {
    skip_blanks();
    if (at_ == text_.size() || text_[at_] != letter) return false;
    ++at_;
    return true;
  }

  bool at_end() {
    skip_blanks();
    return at_ == text_.size();
  }

  // A text in single or double quotes. Escapes do not occur here.
  std::optional<std::string> text() {
    skip_blanks();
    if (at_ == text_.size() || (text_[at_] != '\'' && text_[at_] != '"')) return std::nullopt;
    const size_t end = text_.find(text_[at_], at_ + 1);
    if (end == std::string_view::npos) return std::nullopt;
    const std::string_view found = text_.substr(at_ + 1, end - at_ - 1);
    if (found.find('\\') != std::string_view::npos) return std::nullopt;
    at_ = end + 1;
    return std::string(found);
  }

  std::optional<bool> boolean() {
    skip_blanks();
    for (const bool value : {true, false}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return value;
      }
    }
    return std::nullopt;
  }

  // "()", "(3,)", "(3, 4)". Old versions wrote "3L".
  std::optional<std::vector<int64_t>> shape() {
    if (!take('(')) return std::nullopt;
    std::vector<int64_t> sizes;
    while (!take(')')) {
      skip_blanks();
      int64_t size = 0;
      const char* begin = text_.data() + at_;
      const auto [end, code] = std::from_chars(begin, text_.data() + text_.size(), size);
      if (code != std::errc() || size < 0 || *begin == '-') return std::nullopt;
      at_ += static_cast<size_t>(end - begin);
      if (at_ < text_.size() && text_[at_] == 'L') ++at_;
      sizes.push_back(size);
      if (sizes.size() > kMostAxes) return std::nullopt;
      if (take(',')) continue;
      // "(3)" is a number in brackets, no tuple.
      if (sizes.size() == 1 || !take(')')) return std::nullopt;
      break;
    }
    return sizes;
  }

  std::string rest() const { return std::string(text_.substr(at_)); }

 private:
  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) {
      ++at_;
    }
  }

  std::string_view text_;
  size_t at_ = 0;
};

Error refused(const std::string& name, const std::string& what, std::string hint) {
  return invalid_argument("not supported: " + name + " " + what, std::move(hint));
}

// The kind of number that a letter of a dtype means, and the widths that it may have.
struct NumberKind {
  char letter{};
  NpyKind kind;
  std::array<int64_t, 4> widths;  // bytes; the rest is 0
};
constexpr NumberKind kNumberKinds[] = {
    {'b', NpyKind::kBool, {1}},          {'i', NpyKind::kInt, {1, 2, 4, 8}},
    {'u', NpyKind::kUint, {1, 2, 4, 8}}, {'f', NpyKind::kFloat, {2, 4, 8}},
    {'c', NpyKind::kComplex, {8, 16}},
};

// Sets the kind and the bytes of elements of `letter` and `width`; false when there are none such.
bool set_kind(char letter, int64_t width, NpyHeader* header) {
  header->item_bytes = static_cast<uint64_t>(width);
  if (letter == 'S' || letter == 'a') {
    header->kind = NpyKind::kBytes;
    header->big_endian = false;  // bytes have no order
    return true;
  }
  if (letter == 'U') {
    if (width > INT64_MAX / 4) return false;
    header->kind = NpyKind::kUnicode;
    header->item_bytes = static_cast<uint64_t>(width) * 4;
    return true;
  }
  for (const NumberKind& known : kNumberKinds) {
    if (known.letter != letter) continue;
    header->kind = known.kind;
    return width > 0 && std::ranges::find(known.widths, width) != known.widths.end();
  }
  return false;
}

// Reads a dtype as numpy writes it, such as "<f4".
Status parse_descr(const std::string& descr, const std::string& name, NpyHeader* header) {
  const auto unknown = [&] {
    return refused(name, "has the dtype '" + descr + "'",
                   "save numbers, bools or strings: numpy.save(path, array.astype(\"float32\"))");
  };
  std::string_view rest = descr;
  const char order =
      rest.empty() || std::string_view("<>=|").find(rest[0]) == std::string_view::npos ? '='
                                                                                       : rest[0];
  if (!rest.empty() && rest[0] == order) rest.remove_prefix(1);
  header->big_endian = order == '>';
  if (rest.empty()) return unknown();
  const char letter = rest[0];
  rest.remove_prefix(1);
  if (letter == 'O') {
    return refused(name, "is an array of Python objects, which only Python can read",
                   "save it with one dtype: numpy.save(path, numpy.stack(list(array))), or "
                   "array.astype(\"float32\"), or array.astype(\"S\") for texts");
  }
  if (letter == 'M' || letter == 'm') {
    return refused(name, "is an array of dates or times ('" + descr + "')",
                   "save them as numbers: numpy.save(path, array.astype(\"int64\"))");
  }
  const std::optional<int64_t> width = parse_int(rest);
  if (!width || *width < 0) return unknown();
  if (set_kind(letter, *width, header)) return {};
  return unknown();
}

}  // namespace

Result<NpyHeader> parse_npy_header(std::string_view text, const std::string& name) {
  const auto damaged = [&](const std::string& what) {
    return corrupt(name + ": the header of the .npy file " + what + ": " +
                       std::string(trim(text.substr(0, 200))),
                   "save the array again with numpy.save");
  };
  DictReader reader(text);
  NpyHeader header;
  std::optional<std::string> descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<int64_t>> shape;
  if (!reader.take('{')) return damaged("is not a dict");
  while (!reader.take('}')) {
    const std::optional<std::string> key = reader.text();
    if (!key || !reader.take(':')) return damaged("is not a dict");
    if (key == "descr" && !descr) {
      if (reader.take('[')) {
        return refused(name, "is an array of records (several named fields an element)",
                       "save each field as a separate array: numpy.savez(path, **{field: "
                       "array[field] for field in array.dtype.names})");
      }
      descr = reader.text();
      if (!descr) return damaged("has a 'descr' that is not text");
    } else if (key == "fortran_order" && !fortran_order) {
      fortran_order = reader.boolean();
      if (!fortran_order) return damaged("has a 'fortran_order' that is neither True nor False");
    } else if (key == "shape" && !shape) {
      shape = reader.shape();
      if (!shape) return damaged("has a 'shape' that is not a tuple of sizes");
    } else {
      return damaged("has the key '" + *key + "' " +
                     (key == "descr" || key == "fortran_order" || key == "shape"
                          ? "twice"
                          : "in addition to 'descr', 'fortran_order' and 'shape'"));
    }
    if (!reader.take(',')) {
      if (!reader.take('}')) return damaged("is not a dict");
      break;
    }
  }
  if (!reader.at_end()) return damaged("continues after the dict");
  if (!descr || !fortran_order || !shape) {
    return damaged("lacks one of 'descr', 'fortran_order' and 'shape'");
  }
  const Status type = parse_descr(*descr, name, &header);
  if (!type.ok()) return type.error();
  header.fortran_order = *fortran_order;
  header.shape = std::move(*shape);
  return header;
}

}  // namespace muster::inline v0_1::formats::internal
