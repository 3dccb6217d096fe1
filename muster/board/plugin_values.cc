#include "muster/board/plugin_values.h"

#include <algorithm>
#include <utility>

#include "muster/base/bytes.h"
#include "muster/base/error.h"
#include "muster/formats/protobuf.h"

namespace muster::inline v0_1::board {
namespace {

using formats::SummaryValue;
using formats::TensorSummary;
using formats::TensorType;
using formats::internal::Message;

// By the field numbers of the HParams plugin, as formats/hparams.cc writes them.
namespace wire {
enum class Data : uint32_t { kStart = 3, kEnd = 4 };
enum class Start : uint32_t { kHParam = 1, kStarted = 5 };
enum class Entry : uint32_t { kKey = 1, kValue = 2 };
enum class Value : uint32_t { kNumber = 2, kString = 3, kBool = 4 };
enum class End : uint32_t { kStatus = 1, kEnded = 2 };
}  // namespace wire

template <typename Number>
std::optional<std::vector<double>> elements_of(const std::string& content) {
  if (content.size() % sizeof(Number) != 0) return std::nullopt;
  std::vector<double> numbers(content.size() / sizeof(Number));
  for (size_t at = 0; at < numbers.size(); ++at) {
    numbers[at] =
        static_cast<double>(load_little_endian<Number>(content.data() + at * sizeof(Number)));
  }
  return numbers;
}

const TensorSummary* tensor_in(const SummaryValue& value, std::string_view plugin) {
  const auto* tensor = std::get_if<TensorSummary>(&value.value);
  // Some writers name the plugin in the first event of a tag alone.
  return tensor != nullptr && (tensor->plugin == plugin || tensor->plugin.empty()) ? tensor
                                                                                   : nullptr;
}

}  // namespace

std::optional<std::vector<double>> numbers_of(const TensorSummary& tensor) {
  switch (tensor.type) {
    case TensorType::kFloat32:
      return elements_of<float>(tensor.content);
    case TensorType::kFloat64:
      return elements_of<double>(tensor.content);
    case TensorType::kInt32:
      return elements_of<int32_t>(tensor.content);
    case TensorType::kInt64:
      return elements_of<int64_t>(tensor.content);
    default:
      return std::nullopt;
  }
}

std::optional<formats::Histogram> histogram_of(const SummaryValue& value) {
  if (const auto* histogram = std::get_if<formats::Histogram>(&value.value)) return *histogram;
  const TensorSummary* tensor = tensor_in(value, "histograms");
  if (tensor == nullptr) return std::nullopt;
  const auto numbers = numbers_of(*tensor);
  if (!numbers || numbers->size() % 3 != 0) return std::nullopt;
  formats::Histogram histogram;
  for (size_t row = 0; row < numbers->size(); row += 3) {
    const double left = (*numbers)[row], right = (*numbers)[row + 1], count = (*numbers)[row + 2];
    if (row == 0) histogram.min = left;
    histogram.max = right;
    histogram.limits.push_back(right);
    histogram.counts.push_back(count);
    histogram.count += count;
    histogram.sum += count * (left + right) / 2;
  }
  return histogram;
}

std::vector<std::string> images_of(const SummaryValue& value) {
  if (const auto* image = std::get_if<formats::ImageSummary>(&value.value)) return {image->encoded};
  const TensorSummary* tensor = tensor_in(value, "images");
  if (tensor == nullptr || tensor->strings.size() < 3) return {};
  return {tensor->strings.begin() + 2, tensor->strings.end()};
}

std::vector<std::string> sounds_of(const SummaryValue& value) {
  if (const auto* audio = std::get_if<formats::AudioSummary>(&value.value)) return {audio->encoded};
  const TensorSummary* tensor = tensor_in(value, "audio");
  if (tensor == nullptr) return {};
  if (tensor->shape.size() != 2 || tensor->shape[1] != 2) return tensor->strings;
  std::vector<std::string> sounds;
  for (size_t row = 0; row < tensor->strings.size(); row += 2)
    sounds.push_back(tensor->strings[row]);
  return sounds;
}

std::optional<Texts> texts_of(const SummaryValue& value) {
  if (const auto* text = std::get_if<std::string>(&value.value)) return Texts{{*text}, {}};
  const TensorSummary* tensor = tensor_in(value, "text");
  if (tensor == nullptr || tensor->type != TensorType::kString) return std::nullopt;
  return Texts{tensor->strings, tensor->shape};
}

std::optional<PrecisionRecall> curve_of(const SummaryValue& value) {
  const TensorSummary* tensor = tensor_in(value, "pr_curves");
  if (tensor == nullptr) return std::nullopt;
  const auto numbers = numbers_of(*tensor);
  if (!numbers || numbers->empty() || numbers->size() % 6 != 0) return std::nullopt;
  const size_t length = numbers->size() / 6;
  const auto row = [&](size_t number) {
    const auto begin = numbers->begin() + static_cast<std::ptrdiff_t>(number * length);
    return std::vector<double>(begin, begin + static_cast<std::ptrdiff_t>(length));
  };
  // True and false positives, true and false negatives, precision, recall.
  return PrecisionRecall{
      .precision = row(4), .recall = row(5), .true_positives = row(0), .false_positives = row(1)};
}

std::optional<SessionStart> session_start_of(const SummaryValue& value) {
  const auto* tensor = std::get_if<TensorSummary>(&value.value);
  if (tensor == nullptr) return std::nullopt;
  try {
    SessionStart start;
    Message<wire::Data> from(bytes_of(tensor->plugin_content));
    Message<wire::Start> message;
    if (!from.find(wire::Data::kStart, &message)) return std::nullopt;
    Message<wire::Entry> entry;
    while (message.next()) {
      message.read(wire::Start::kStarted, &start.started);
      if (!message.read(wire::Start::kHParam, &entry)) continue;
      std::string key;
      formats::HParam given = 0.0;
      Message<wire::Value> written;
      while (entry.next()) {
        entry.read(wire::Entry::kKey, &key);
        if (!entry.read(wire::Entry::kValue, &written)) continue;
        double number = 0;
        std::string text;
        bool truth = false;
        while (written.next()) {
          if (written.read(wire::Value::kNumber, &number)) given = number;
          if (written.read(wire::Value::kString, &text)) given = text;
          if (written.read(wire::Value::kBool, &truth)) given = truth;
        }
      }
      start.hparams[key] = given;
    }
    return start;
  } catch (const Error&) {
    return std::nullopt;  // a damaged message is none
  }
}

std::optional<SessionEnd> session_end_of(const SummaryValue& value) {
  const auto* tensor = std::get_if<TensorSummary>(&value.value);
  if (tensor == nullptr) return std::nullopt;
  try {
    SessionEnd end;
    Message<wire::Data> from(bytes_of(tensor->plugin_content));
    Message<wire::End> message;
    if (!from.find(wire::Data::kEnd, &message)) return std::nullopt;
    while (message.next()) {
      message.read(wire::End::kStatus, &end.result);
      message.read(wire::End::kEnded, &end.ended);
    }
    return end;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace muster::inline v0_1::board
