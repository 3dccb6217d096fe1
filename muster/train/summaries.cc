#include "muster/train/summaries.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "muster/base/error.h"
#include "muster/distribute/exchange.h"
#include "muster/formats/image.h"
#include "muster/formats/wav.h"
#include "muster/summary/histogram.h"
#include "muster/tensor/libtorch.h"
#include "muster/train/internal/merge_summaries.h"
#include "muster/train/summary_calls.h"

namespace muster::inline v0_1 {
namespace {

using formats::SummaryValue;

Tensor on_cpu(const Tensor& tensor) { return tensor.detach().cpu().contiguous(); }

void check_outputs(const char* verb, const std::string& tag, int64_t max_outputs) {
  if (max_outputs >= 1) return;
  throw invalid_argument(fmt::format(
      "the {} summary \"{}\" has max_outputs = {}; it must be at least 1", verb, tag, max_outputs));
}

// "<name>/image" of a single one, "<name>/image/2" of several.
std::string output_tag(const std::string& tag, const char* kind, int64_t output,
                       int64_t max_outputs) {
  return max_outputs == 1 ? fmt::format("{}/{}", tag, kind)
                          : fmt::format("{}/{}/{}", tag, kind, output);
}

formats::TensorType summary_type(const std::string& tag, const Tensor& tensor) {
  using formats::TensorType;
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return TensorType::kFloat32;
    case at::kDouble:
      return TensorType::kFloat64;
    case at::kInt:
      return TensorType::kInt32;
    case at::kLong:
      return TensorType::kInt64;
    case at::kByte:
      return TensorType::kUint8;
    case at::kChar:
      return TensorType::kInt8;
    case at::kShort:
      return TensorType::kInt16;
    case at::kBool:
      return TensorType::kBool;
    case at::kHalf:
      return TensorType::kFloat16;
    case at::kBFloat16:
      return TensorType::kBfloat16;
    default:
      throw invalid_argument(
          fmt::format("the tensor summary \"{}\" got {}", tag, describe(tensor)),
          "give it numbers: float16, bfloat16, float32, float64, a whole number type or bool");
  }
}

// [height, width, channels] of uint8.
Tensor as_pixels(const Tensor& image) {
  if (image.scalar_type() == at::kByte) return image.contiguous();
  const Tensor real = at::nan_to_num(image.to(at::kFloat), 0.0, 1.0, 0.0).clamp(0, 1);
  return (real * 255).round().to(at::kByte).contiguous();
}

}  // namespace

Summaries::Scope::Scope(Summaries& summaries, const std::string& name)
    : summaries_(summaries), outer_(summaries.prefix_.size()) {
  if (name.empty())
    throw invalid_argument("a scope of summaries has no name", "scope(\"encoder\")");
  summaries.prefix_ += name + "/";
}

Summaries::Scope::~Scope() { summaries_.prefix_.resize(outer_); }

void internal::SummaryCalls::begin(const Call& call) {
  summaries_.call_ = call;
  summaries_.call_.due = call.due && call.rows > 0;
  summaries_.used_.clear();
}

void internal::SummaryCalls::clear() {
  auto& others = summaries_.others_;
  summaries_.laid_out_ =
      summaries_.laid_out_ && !others.contains(std::string(formats::kCustomScalarsTag));
  summaries_.scalars_.clear();
  summaries_.histograms_.clear();
  others.clear();
}

bool Summaries::is_variable(const Tensor& tensor) const {
  return std::ranges::any_of(variables_.variables(), [&](const auto& variable) {
    return variable->value().is_same(tensor);
  });
}

std::string Summaries::tag_for(const std::string& name) {
  if (!call_.due) return "";
  if (name.empty())
    throw invalid_argument("a summary has no name", "summary().scalar(\"rate\", x)");
  std::string tag = prefix_ + name;
  if (!used_.insert(tag).second) {
    throw invalid_argument(fmt::format("the summary \"{}\" was given twice in one call", tag),
                           "give each a different name, or a scope: summary().scope(\"second\")");
  }
  return tag;
}

void Summaries::put(const std::string& tag, SummaryValue value) {
  others_[tag].push_back(std::move(value));
}

void Summaries::scalar(const std::string& name, double value) {
  const std::string tag = tag_for(name);
  if (tag.empty()) return;
  scalars_[tag].push_back({call_.batch, value, static_cast<double>(call_.rows)});
}

void Summaries::scalar(const std::string& name, const Tensor& value) {
  if (!call_.due) return;
  if (value.numel() != 1) {
    throw invalid_argument(
        fmt::format("the scalar summary \"{}{}\" got {}", prefix_, name, describe(value)),
        "a scalar has one element: mean() makes one of many, histogram() shows them all");
  }
  scalar(name, value.item<double>());
}

void Summaries::scalar(const std::string& name, const TensorFn& value) {
  if (call_.due) scalar(name, value());
}

void Summaries::histogram(const std::string& name, const Tensor& values) {
  const std::string tag = tag_for(name);
  if (tag.empty()) return;
  // All replicas and all batches have the same variables.
  if (is_variable(values) && !wants(tag)) return;
  const Tensor numbers = on_cpu(values).to(at::kDouble);
  formats::Histogram counted;
  try {
    counted = summary::make_histogram(
        std::span<const double>(numbers.data_ptr<double>(), static_cast<size_t>(numbers.numel())));
  } catch (const Error& error) {
    throw error.with_context(fmt::format("cannot make the histogram summary \"{}\"", tag));
  }
  if (is_variable(values)) return put(tag, {tag, std::move(counted)});
  const auto [known, fresh] = histograms_.emplace(tag, counted);
  if (!fresh) known->second = summary::merge_histograms(known->second, counted);
}

void Summaries::histogram(const std::string& name, const TensorFn& values) {
  if (call_.due) histogram(name, values());
}

void Summaries::image(const std::string& name, const Tensor& images,
                      const ImageSummaryOptions& options) {
  const std::string tag = tag_for(name);
  if (!tag.empty() && wants(tag)) add_images(tag, images, options);
}

void Summaries::image(const std::string& name, const TensorFn& images,
                      const ImageSummaryOptions& options) {
  const std::string tag = tag_for(name);
  if (!tag.empty() && wants(tag)) add_images(tag, images(), options);
}

void Summaries::add_images(const std::string& tag, const Tensor& images,
                           const ImageSummaryOptions& options) {
  check_outputs("image", tag, options.max_outputs);
  const bool numbers = images.scalar_type() == at::kByte || images.is_floating_point();
  if (images.dim() != 4 || images.size(3) < 1 || images.size(3) > 4 || !numbers) {
    throw invalid_argument(
        fmt::format("the image summary \"{}\" got {}", tag, describe(images)),
        "give it uint8 or floating [batch, height, width, channels] of 1 to 4 channels");
  }
  const int64_t height = images.size(1), width = images.size(2), channels = images.size(3);
  for (int64_t i = 0; i < std::min(images.size(0), options.max_outputs); ++i) {
    const Tensor pixels = as_pixels(on_cpu(images[i]));
    Result<std::string> png =
        formats::encode_png({pixels.data_ptr<uint8_t>(), static_cast<size_t>(pixels.numel())},
                            height, width, static_cast<int>(channels));
    if (!png.ok()) throw png.error().with_context(fmt::format("the image summary \"{}\"", tag));
    put(tag, {output_tag(tag, "image", i, options.max_outputs),
              formats::ImageSummary{.height = height,
                                    .width = width,
                                    .channels = static_cast<int>(channels),
                                    .encoded = std::move(png.value())}});
  }
}

void Summaries::audio(const std::string& name, const Tensor& sounds,
                      const AudioSummaryOptions& options) {
  const std::string tag = tag_for(name);
  if (!tag.empty() && wants(tag)) add_sounds(tag, sounds, options);
}

void Summaries::audio(const std::string& name, const TensorFn& sounds,
                      const AudioSummaryOptions& options) {
  const std::string tag = tag_for(name);
  if (!tag.empty() && wants(tag)) add_sounds(tag, sounds(), options);
}

void Summaries::add_sounds(const std::string& tag, const Tensor& sounds,
                           const AudioSummaryOptions& options) {
  check_outputs("audio", tag, options.max_outputs);
  const bool shaped = sounds.dim() == 3 || sounds.dim() == 2;
  if (!shaped || !sounds.is_floating_point()) {
    throw invalid_argument(fmt::format("the audio summary \"{}\" got {}", tag, describe(sounds)),
                           "give it floating [batch, frames, channels] or [batch, frames]");
  }
  const int64_t channels = sounds.dim() == 3 ? sounds.size(2) : 1;
  for (int64_t i = 0; i < std::min(sounds.size(0), options.max_outputs); ++i) {
    const Tensor samples = on_cpu(sounds[i]).to(at::kFloat);
    Result<std::string> wav =
        formats::encode_wav({samples.data_ptr<float>(), static_cast<size_t>(samples.numel())},
                            channels, options.sample_rate);
    if (!wav.ok()) throw wav.error().with_context(fmt::format("the audio summary \"{}\"", tag));
    put(tag, {output_tag(tag, "audio", i, options.max_outputs),
              formats::AudioSummary{.sample_rate = static_cast<float>(options.sample_rate),
                                    .channels = channels,
                                    .frames = sounds.size(1),
                                    .encoded = std::move(wav.value()),
                                    .content_type = "audio/wav"}});
  }
}

void Summaries::text(const std::string& name, const std::string& text) {
  const std::string tag = tag_for(name);
  if (!tag.empty() && wants(tag)) put(tag, {tag, text});
}

void Summaries::text_table(const std::string& name,
                           const std::vector<std::vector<std::string>>& table) {
  const std::string tag = tag_for(name);
  if (tag.empty() || !wants(tag)) return;
  const size_t width = table.empty() ? 0 : table[0].size();
  formats::TensorSummary tensor{
      .plugin = "text",
      .type = formats::TensorType::kString,
      .shape = {static_cast<int64_t>(table.size()), static_cast<int64_t>(width)}};
  for (size_t row = 0; row < table.size(); ++row) {
    if (table[row].size() != width) {
      throw invalid_argument(
          fmt::format("the text summary \"{}\" has {} cells in row {} and {} in "
                      "row 0; all rows need the same number",
                      tag, table[row].size(), row, width));
    }
    tensor.strings.insert(tensor.strings.end(), table[row].begin(), table[row].end());
  }
  put(tag, {tag, std::move(tensor)});
}

void Summaries::tensor(const std::string& name, const Tensor& value) {
  const std::string tag = tag_for(name);
  if (tag.empty() || !wants(tag)) return;
  formats::TensorSummary summary{.type = summary_type(tag, value), .shape = value.sizes().vec()};
  const Tensor elements = on_cpu(value);
  summary.content.assign(static_cast<const char*>(elements.data_ptr()), elements.nbytes());
  put(tag, {tag, std::move(summary)});
}

void Summaries::tensor(const std::string& name, const TensorFn& value) {
  if (call_.due && wants(prefix_ + name)) tensor(name, value());
}

void Summaries::custom_scalars(const std::vector<formats::CustomCategory>& categories) {
  if (!call_.due || !call_.first || std::exchange(laid_out_, true)) return;
  SummaryValue layout = formats::custom_scalars_layout(categories);
  const std::string tag = layout.tag;
  put(tag, std::move(layout));
}

nlohmann::json Summaries::mergeable() const {
  nlohmann::json all = {{"scalars", nlohmann::json::object()},
                        {"histograms", nlohmann::json::object()}};
  for (const auto& [tag, numbers] : scalars_) {
    for (const Number& number : numbers)
      all["scalars"][tag].push_back({number.batch, number.value, number.weight});
  }
  for (const auto& [tag, histogram] : histograms_)
    all["histograms"][tag] = internal::histogram_json(histogram);
  return all;
}

std::vector<SummaryValue> internal::SummaryCalls::take(distribute::Exchange& exchange) {
  const std::vector<uint8_t> mine = nlohmann::json::to_cbor(summaries_.mergeable());
  Tensor bytes = torch::empty({static_cast<int64_t>(mine.size())}, at::kByte);
  std::ranges::copy(mine, bytes.data_ptr<uint8_t>());
  std::vector<nlohmann::json> all;
  for (const Tensor& part : exchange.gather(bytes, 0)) {
    const uint8_t* begin = part.data_ptr<uint8_t>();
    all.push_back(nlohmann::json::from_cbor(begin, begin + part.numel()));
  }
  std::vector<SummaryValue> values = internal::merge_summaries(all);
  for (auto& [tag, some] : summaries_.others_) {
    const auto same = [&tag = tag](const SummaryValue& value) { return value.tag == tag; };
    if (std::ranges::any_of(values, same)) throw internal::mixed_kinds(tag);
    for (SummaryValue& value : some) values.push_back(std::move(value));
  }
  summaries_.others_.clear();  // are taken rather than dropped, for a layout is written once
  clear();
  return values;
}

}  // namespace muster::inline v0_1
