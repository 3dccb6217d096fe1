#include "muster/formats/example_parser.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "muster/base/nearest.h"
#include "muster/base/strings.h"
#include "muster/formats/internal/shape_text.h"
#include "muster/formats/wire.h"

namespace muster::inline v0_1::formats {
namespace {

using internal::WireReader;
using internal::WireTag;
using internal::WireType;

// The most features whose place is remembered, because a record may have any number of them.
constexpr size_t kMaxGuesses = 1024;

std::string quoted(const std::string& key) { return "the feature \"" + key + "\""; }

std::vector<std::string> keys_of(Bytes example) {
  Result<Example> decoded = decode_example(example);
  std::vector<std::string> keys;
  if (!decoded.ok()) return keys;
  for (const auto& [key, feature] : decoded.value().features) keys.push_back(key);
  return keys;
}

using internal::shape_text;

}  // namespace

Result<ExamplePlan> ExamplePlan::compile(std::vector<FeaturePlan> features) {
  ExamplePlan plan;
  for (const FeaturePlan& feature : features) {
    const std::string name = quoted(feature.key);
    if (feature.kind == FeatureKind::kNone) {
      return invalid_argument(name + " has no kind", "take bytes, float or int64");
    }
    int64_t width = 1;
    for (const int64_t size : feature.shape) {
      if (size < 0 || __builtin_mul_overflow(width, size, &width)) {
        return invalid_argument(
            fmt::format("{} cannot have the shape {}", name, shape_text(feature.shape)),
            "sizes are 0 or more; read features of changing size with VarLenFeature or "
            "FixedLenSequenceFeature");
      }
    }
    if (feature.form == FeatureForm::kSequence && width == 0) {
      return invalid_argument(fmt::format("a step of {} has the shape {}, without values", name,
                                          shape_text(feature.shape)),
                              "the number of steps is unknown; give a shape with values in it");
    }
    const FeatureKind given = kind_of(feature.default_value);
    if (given != FeatureKind::kNone) {
      const auto count = static_cast<int64_t>(size_of(feature.default_value));
      if (feature.form != FeatureForm::kFixed || given != feature.kind ||
          (count != 1 && count != width)) {
        return invalid_argument(
            fmt::format("the default of {} is {} {} values, but the feature is {} of shape {}",
                        name, count, to_string(given), to_string(feature.kind),
                        shape_text(feature.shape)),
            "give one value, or as many as the shape has, of the feature's dtype");
      }
    }
    if (!plan.places_.emplace(feature.key, static_cast<int32_t>(plan.widths_.size())).second) {
      return invalid_argument(name + " is asked for twice", "ask once and use the result twice");
    }
    plan.widths_.push_back(width);
  }
  plan.features_ = std::move(features);
  return plan;
}

int32_t ExamplePlan::find(std::string_view key) const {
  const auto place = places_.find(key);
  return place == places_.end() ? -1 : place->second;
}

// Reads one example. A call that returns false found damage.
class ExampleBatch::Parser {
 public:
  explicit Parser(ExampleBatch& batch) : batch_(batch) {}

  bool example(WireReader reader) {
    WireTag tag;
    WireReader features;
    while (!reader.done()) {
      const std::byte* const at = reader.position();
      const bool good = reader.tag(&tag) &&
                        (tag.is(1, WireType::kBytes) ? reader.message(&features) && map(features)
                                                     : reader.skip(tag));
      if (!good) return damaged(at);
    }
    return true;
  }

  const std::byte* damaged_at() const { return damaged_at_; }

 private:
  // The innermost place of damage is told.
  bool damaged(const std::byte* at) {
    if (damaged_at_ == nullptr) damaged_at_ = at;
    return false;
  }

  bool map(WireReader reader) {
    WireTag tag;
    WireReader one;
    while (!reader.done()) {
      const std::byte* const at = reader.position();
      const bool good =
          reader.tag(&tag) &&
          (tag.is(1, WireType::kBytes) ? reader.message(&one) && entry(one) : reader.skip(tag));
      if (!good) return damaged(at);
    }
    return true;
  }

  bool entry(WireReader reader) {
    // All writers put the key first, then the value, and nothing else.
    const WireReader whole = reader;
    WireTag tag;
    Bytes key;
    WireReader value;
    if (reader.tag(&tag) && tag.is(1, WireType::kBytes) && reader.bytes(&key) && reader.tag(&tag) &&
        tag.is(2, WireType::kBytes) && reader.message(&value) && reader.done()) {
      const int32_t place = look_up(text_of(key));
      if (place < 0) return true;
      batch_.begin_cell(static_cast<size_t>(place));
      return feature(static_cast<size_t>(place), value);
    }
    return unusual_entry(whole);
  }

  // Reads an entry as the format allows it: its parts come in any order, the last key counts,
  // values are joined.
  bool unusual_entry(WireReader reader) {
    const WireReader whole = reader;
    WireTag tag;
    Bytes key;
    while (!reader.done()) {
      if (!reader.tag(&tag)) return false;
      if (tag.is(1, WireType::kBytes) ? !reader.bytes(&key) : !reader.skip(tag)) return false;
    }
    const int32_t place = look_up(text_of(key));
    if (place < 0) return true;
    batch_.begin_cell(static_cast<size_t>(place));
    WireReader value;
    for (reader = whole; !reader.done();) {
      if (!reader.tag(&tag)) return false;
      if (!tag.is(2, WireType::kBytes)) {
        if (!reader.skip(tag)) return false;
      } else if (!reader.message(&value) || !feature(static_cast<size_t>(place), value)) {
        return false;
      }
    }
    return true;
  }

  int32_t look_up(std::string_view key) {
    const size_t at = next_guess_++;
    std::vector<Guess>& guesses = batch_.guesses_;
    if (at < guesses.size() && guesses[at].key == key) [[likely]]
      return guesses[at].feature;
    const int32_t place = batch_.plan_.find(key);
    if (at < kMaxGuesses) {
      if (at >= guesses.size()) guesses.resize(at + 1);
      guesses[at] = {std::string(key), place};
    }
    return place;
  }

  // Reads one of three lists. When there are several kinds, the last counts, and lists of one kind
  // are joined.
  bool feature(size_t place, WireReader reader) {
    Cell& cell = batch_.cells_[place];
    const FeatureKind wanted = batch_.plan_.features()[place].kind;
    WireTag tag;
    WireReader list;
    while (!reader.done()) {
      const std::byte* const at = reader.position();
      if (!reader.tag(&tag)) return damaged(at);
      if (tag.type != WireType::kBytes || tag.field > 3) {
        if (!reader.skip(tag)) return damaged(at);
        continue;
      }
      if (!reader.message(&list)) return damaged(at);
      const auto kind = static_cast<FeatureKind>(tag.field);
      if (cell.kind != kind) {
        if (cell.kind != FeatureKind::kNone) batch_.begin_cell(place);
        cell.kind = kind;
      }
      if (kind != wanted) continue;
      const bool good = kind == FeatureKind::kFloat   ? floats(place, list)
                        : kind == FeatureKind::kInt64 ? integers(place, list)
                                                      : strings(place, list);
      if (!good) return damaged(at);
    }
    return true;
  }

  // Returns memory for `count` numbers after those of the row; nullptr when its shape has no more.
  template <typename Number>
  Number* room(size_t place, size_t count) {
    Cell& cell = batch_.cells_[place];
    FeatureColumn& column = batch_.columns_[place];
    const auto held = cell.count;
    cell.count += static_cast<int64_t>(count);
    constexpr bool kFloats = std::is_same_v<Number, float>;
    if (batch_.plan_.features()[place].form != FeatureForm::kFixed) {
      auto& values = [&]() -> std::vector<Number>& {
        if constexpr (kFloats) {
          return column.float_values;
        } else {
          return column.integer_values;
        }
      }();
      values.resize(values.size() + count);
      return values.data() + (values.size() - count);
    }
    const int64_t width = batch_.plan_.width(place);
    if (cell.count > width) return nullptr;
    Number* base;
    if constexpr (kFloats) {
      base = column.floats;
    } else {
      base = column.integers;
    }
    return base + batch_.row_ * width + held;
  }

  bool floats(size_t place, WireReader list) {
    WireTag tag;
    while (!list.done()) {
      if (!list.tag(&tag)) return false;
      if (tag.is(1, WireType::kBytes)) {
        Bytes packed;
        if (!list.bytes(&packed) || packed.size() % sizeof(float) != 0) return false;
        if (packed.empty()) continue;
        float* const to = room<float>(place, packed.size() / sizeof(float));
        if (to != nullptr) std::memcpy(to, packed.data(), packed.size());
      } else if (tag.is(1, WireType::kFixed32)) {
        float value;
        if (!list.fixed(&value)) return false;
        float* const to = room<float>(place, 1);
        if (to != nullptr) *to = value;
      } else if (!list.skip(tag)) {
        return false;
      }
    }
    return true;
  }

  bool integers(size_t place, WireReader list) {
    WireTag tag;
    uint64_t value;
    while (!list.done()) {
      if (!list.tag(&tag)) return false;
      if (tag.is(1, WireType::kBytes)) {
        WireReader packed;
        if (!list.message(&packed)) return false;
        // Every number ends with its only byte that is below 128.
        const Bytes bytes = packed.rest();
        const auto count = static_cast<size_t>(std::count_if(
            bytes.begin(), bytes.end(), [](std::byte byte) { return byte < std::byte{0x80}; }));
        int64_t* const to = room<int64_t>(place, count);
        if (to == nullptr) continue;
        for (size_t i = 0; i < count; ++i) {
          if (!packed.varint(&value)) return false;
          to[i] = static_cast<int64_t>(value);
        }
        if (!packed.done()) return false;
      } else if (tag.is(1, WireType::kVarint)) {
        if (!list.varint(&value)) return false;
        int64_t* const to = room<int64_t>(place, 1);
        if (to != nullptr) *to = static_cast<int64_t>(value);
      } else if (!list.skip(tag)) {
        return false;
      }
    }
    return true;
  }

  bool strings(size_t place, WireReader list) {
    FeatureColumn& column = batch_.columns_[place];
    WireTag tag;
    Bytes text;
    while (!list.done()) {
      if (!list.tag(&tag)) return false;
      if (!tag.is(1, WireType::kBytes)) {
        if (!list.skip(tag)) return false;
        continue;
      }
      if (!list.bytes(&text)) return false;
      column.bytes.append(text_of(text));
      column.ends.push_back(static_cast<int64_t>(column.bytes.size()));
      ++batch_.cells_[place].count;
    }
    return true;
  }

  ExampleBatch& batch_;
  size_t next_guess_ = 0;
  const std::byte* damaged_at_ = nullptr;
};

ExampleBatch::ExampleBatch(const ExamplePlan& plan, std::span<FeatureColumn> columns)
    : plan_(plan), columns_(columns), cells_(plan.features().size()) {}

// The values of the feature begin in this row, or begin again.
void ExampleBatch::begin_cell(size_t feature) {
  Cell& cell = cells_[feature];
  FeatureColumn& column = columns_[feature];
  const FeatureKind kind = plan_.features()[feature].kind;
  const bool again = cell.row == row_;
  if (kind == FeatureKind::kBytes) {
    if (again) {
      column.ends.resize(cell.begin + 1);
      column.bytes.resize(static_cast<size_t>(column.ends.back()));
    }
    cell.begin = column.ends.size() - 1;
  } else if (plan_.features()[feature].form != FeatureForm::kFixed) {
    const auto reset = [&](auto& values) {
      if (again) values.resize(cell.begin);
      cell.begin = values.size();
    };
    kind == FeatureKind::kFloat ? reset(column.float_values) : reset(column.integer_values);
  }
  cell.row = row_;
  cell.kind = FeatureKind::kNone;
  cell.count = 0;
}

Status ExampleBatch::add(Bytes example) {
  Parser parser(*this);
  if (!parser.example(WireReader(example))) {
    return corrupt(fmt::format("{} bytes are not a tf.Example: damage at byte {}", example.size(),
                               parser.damaged_at() - example.data()),
                   "muster inspect records FILE shows what is in a file");
  }
  for (size_t i = 0; i < cells_.size(); ++i) {
    const FeaturePlan& feature = plan_.features()[i];
    const Cell& cell = cells_[i];
    if (cell.row != row_ || cell.kind == FeatureKind::kNone) {
      if (Status filled = fill_missing(i, example); !filled.ok()) return filled;
    } else if (cell.kind != feature.kind) {
      return invalid_argument(fmt::format("{} holds {} values, not {}", quoted(feature.key),
                                          to_string(cell.kind), to_string(feature.kind)),
                              "ask for it with the dtype the data has");
    } else if (feature.form == FeatureForm::kFixed && cell.count != plan_.width(i)) {
      return invalid_argument(
          fmt::format("{} holds {} values, but its shape {} takes {}", quoted(feature.key),
                      cell.count, shape_text(feature.shape), plan_.width(i)),
          "give the shape the data has, or read it as VarLenFeature when that changes");
    } else if (feature.form == FeatureForm::kSequence && cell.count % plan_.width(i) != 0) {
      return invalid_argument(
          fmt::format("{} holds {} values, which are not whole steps of shape {}",
                      quoted(feature.key), cell.count, shape_text(feature.shape)),
          "give the shape that one step of the data has");
    } else if (feature.form != FeatureForm::kFixed) {
      columns_[i].row_lengths.push_back(cell.count);
    }
  }
  ++row_;
  return {};
}

Status ExampleBatch::fill_missing(size_t i, Bytes example) {
  const FeaturePlan& feature = plan_.features()[i];
  FeatureColumn& column = columns_[i];
  const bool sequence = feature.form == FeatureForm::kSequence;
  if (feature.form == FeatureForm::kVariable || (sequence && feature.allow_missing)) {
    column.row_lengths.push_back(0);
    return {};
  }
  const auto width = static_cast<size_t>(plan_.width(i));
  const auto repeat = [&](const auto& values, auto* to) {
    for (size_t k = 0; k < width; ++k) to[k] = values[values.size() == 1 ? 0 : k];
  };
  if (const auto* floats = std::get_if<std::vector<float>>(&feature.default_value)) {
    repeat(*floats, column.floats + static_cast<size_t>(row_) * width);
  } else if (const auto* integers = std::get_if<std::vector<int64_t>>(&feature.default_value)) {
    repeat(*integers, column.integers + static_cast<size_t>(row_) * width);
  } else if (const auto* texts = std::get_if<std::vector<std::string>>(&feature.default_value)) {
    for (size_t k = 0; k < width; ++k) {
      column.bytes += (*texts)[texts->size() == 1 ? 0 : k];
      column.ends.push_back(static_cast<int64_t>(column.bytes.size()));
    }
  } else {
    const std::vector<std::string> keys = keys_of(example);
    if (std::find(keys.begin(), keys.end(), feature.key) != keys.end()) {
      return invalid_argument(fmt::format("{} has no values and no default", quoted(feature.key)),
                              "give it a default_value, or read it as a VarLenFeature");
    }
    const std::optional<std::string> meant = nearest(feature.key, keys);
    return invalid_argument(
        fmt::format("{} is missing and has no default; the example has {}", quoted(feature.key),
                    join_quoted(keys)),
        meant      ? "did you mean \"" + *meant + "\"?"
        : sequence ? "set allow_missing, or leave the feature out"
                   : "give it a default_value, read it as VarLenFeature, or leave it out");
  }
  return {};
}

}  // namespace muster::inline v0_1::formats
