#include "muster/formats/hparams.h"

#include <utility>

#include "muster/formats/internal/protobuf.h"

namespace muster::inline v0_1::formats {
namespace {

using internal::add_double;
using internal::add_text;
using internal::Builder;

// By the field numbers of the HParams plugin.
namespace wire {
enum class HParamsData : protozero::pbf_tag_type {
  kExperiment = 2,    // Experiment
  kSessionStart = 3,  // SessionStart
  kSessionEnd = 4,    // SessionEnd
};
enum class Experiment : protozero::pbf_tag_type {
  kCreated = 3,  // double
  kHParam = 4,   // HParamInfo, repeated
  kMetric = 5,   // MetricInfo, repeated
};
enum class HParamInfo : protozero::pbf_tag_type {
  kName = 1,         // string
  kDisplayName = 2,  // string
  kType = 4,         // enum
  kDomain = 5,       // JsonList
};
enum class MetricInfo : protozero::pbf_tag_type {
  kName = 1,         // MetricName
  kDisplayName = 3,  // string
};
enum class MetricName : protozero::pbf_tag_type {
  kGroup = 1,  // string
  kTag = 2,    // string
};
enum class SessionStart : protozero::pbf_tag_type {
  kHParam = 1,   // HParamEntry, repeated
  kGroup = 4,    // string
  kStarted = 5,  // double
};
enum class HParamEntry : protozero::pbf_tag_type {
  kKey = 1,    // string
  kValue = 2,  // JsonValue
};
enum class SessionEnd : protozero::pbf_tag_type {
  kStatus = 1,  // enum
  kEnded = 2,   // double
};
// google.protobuf.Value and ListValue.
enum class JsonValue : protozero::pbf_tag_type {
  kNumber = 2,  // double
  kString = 3,  // string
  kBool = 4,    // bool
};
enum class JsonList : protozero::pbf_tag_type { kValue = 1 };  // JsonValue, repeated
}  // namespace wire

// A value inside of a message is one of several kinds, so 0 and "" are written too.
std::string encode_hparam(const HParam& from) {
  std::string bytes;
  Builder<wire::JsonValue> to(bytes);
  if (const auto* truth = std::get_if<bool>(&from)) {
    to.add_bool(wire::JsonValue::kBool, *truth);
  } else if (const auto* number = std::get_if<double>(&from)) {
    to.add_double(wire::JsonValue::kNumber, *number);
  } else {
    to.add_string(wire::JsonValue::kString, std::get<std::string>(from));
  }
  return bytes;
}

// Numbers of the plugin's DataType.
int type_of_hparam(const HParam& from) {
  constexpr int kBool = 2, kFloat64 = 3, kString = 1;
  if (std::holds_alternative<bool>(from)) return kBool;
  return std::holds_alternative<double>(from) ? kFloat64 : kString;
}

std::string encode_column(const HParamColumn& from) {
  std::string bytes;
  Builder<wire::HParamInfo> to(bytes);
  to.add_string(wire::HParamInfo::kName, from.name);
  add_text(to, wire::HParamInfo::kDisplayName, from.display_name);
  if (from.domain.empty()) return bytes;
  to.add_enum(wire::HParamInfo::kType, type_of_hparam(from.domain[0]));
  Builder<wire::JsonList> domain(to, wire::HParamInfo::kDomain);
  for (const HParam& value : from.domain)
    domain.add_message(wire::JsonList::kValue, encode_hparam(value));
  return bytes;
}

std::string encode_metric(const HParamsMetric& from) {
  std::string name;
  Builder<wire::MetricName> names(name);
  add_text(names, wire::MetricName::kGroup, from.group);
  add_text(names, wire::MetricName::kTag, from.tag);
  std::string bytes;
  Builder<wire::MetricInfo> to(bytes);
  to.add_message(wire::MetricInfo::kName, name);
  add_text(to, wire::MetricInfo::kDisplayName, from.display_name);
  return bytes;
}

// The page reads the plugin's content; the tensor is there because every summary has one.
SummaryValue hparams_summary(const char* tag, wire::HParamsData field, const std::string& message) {
  std::string content;
  Builder<wire::HParamsData>(content).add_message(field, message);
  return {tag, TensorSummary{.plugin = "hparams",
                             .plugin_content = std::move(content),
                             .type = TensorType::kFloat32,
                             .content = std::string(sizeof(float), '\0')}};
}

}  // namespace

SummaryValue hparams_experiment(const std::vector<HParamColumn>& hparams,
                                const std::vector<HParamsMetric>& metrics, double created) {
  std::string bytes;
  Builder<wire::Experiment> to(bytes);
  add_double(to, wire::Experiment::kCreated, created);
  for (const HParamColumn& column : hparams)
    to.add_message(wire::Experiment::kHParam, encode_column(column));
  for (const HParamsMetric& metric : metrics)
    to.add_message(wire::Experiment::kMetric, encode_metric(metric));
  return hparams_summary("_hparams_/experiment", wire::HParamsData::kExperiment, bytes);
}

SummaryValue hparams_session_start(const std::map<std::string, HParam>& hparams,
                                   const std::string& group, double started) {
  std::string bytes;
  Builder<wire::SessionStart> to(bytes);
  for (const auto& [name, value] : hparams) {
    Builder<wire::HParamEntry> entry(to, wire::SessionStart::kHParam);
    entry.add_string(wire::HParamEntry::kKey, name);
    entry.add_message(wire::HParamEntry::kValue, encode_hparam(value));
  }
  add_text(to, wire::SessionStart::kGroup, group);
  add_double(to, wire::SessionStart::kStarted, started);
  return hparams_summary("_hparams_/session_start_info", wire::HParamsData::kSessionStart, bytes);
}

SummaryValue hparams_session_end(SessionResult result, double ended) {
  std::string bytes;
  Builder<wire::SessionEnd> to(bytes);
  to.add_enum(wire::SessionEnd::kStatus, static_cast<int>(result));
  add_double(to, wire::SessionEnd::kEnded, ended);
  return hparams_summary("_hparams_/session_end_info", wire::HParamsData::kSessionEnd, bytes);
}

}  // namespace muster::inline v0_1::formats
