#include "muster/formats/hparams.h"

#include <utility>

#include "muster/formats/protobuf.h"

namespace muster::inline v0_1::formats {
namespace {

using internal::Builder;

// By the field numbers of the HParams plugin.
namespace wire {
enum class HParamsData : uint32_t {
  kExperiment = 2,    // Experiment
  kSessionStart = 3,  // SessionStart
  kSessionEnd = 4,    // SessionEnd
};
enum class Experiment : uint32_t {
  kCreated = 3,  // double
  kHParam = 4,   // HParamInfo, repeated
  kMetric = 5,   // MetricInfo, repeated
};
enum class HParamInfo : uint32_t {
  kName = 1,         // string
  kDisplayName = 2,  // string
  kType = 4,         // enum
  kDomain = 5,       // JsonList
};
enum class MetricInfo : uint32_t {
  kName = 1,         // MetricName
  kDisplayName = 3,  // string
};
enum class MetricName : uint32_t {
  kGroup = 1,  // string
  kTag = 2,    // string
};
enum class SessionStart : uint32_t {
  kHParam = 1,   // HParamEntry, repeated
  kGroup = 4,    // string
  kStarted = 5,  // double
};
enum class HParamEntry : uint32_t {
  kKey = 1,    // string
  kValue = 2,  // JsonValue
};
enum class SessionEnd : uint32_t {
  kStatus = 1,  // enum
  kEnded = 2,   // double
};
// google.protobuf.Value and ListValue.
enum class JsonValue : uint32_t {
  kNumber = 2,  // double
  kString = 3,  // string
  kBool = 4,    // bool
};
enum class JsonList : uint32_t { kValue = 1 };  // JsonValue, repeated
}  // namespace wire

// A value inside of a message is one of several kinds, so 0 and "" are written too.
std::string encode_hparam(const HParam& from) {
  Builder<wire::JsonValue> to;
  if (const auto* truth = std::get_if<bool>(&from)) {
    to.put_varint(wire::JsonValue::kBool, *truth);
  } else if (const auto* number = std::get_if<double>(&from)) {
    to.put_fixed(wire::JsonValue::kNumber, *number);
  } else {
    to.put_bytes(wire::JsonValue::kString, std::get<std::string>(from));
  }
  return to.take();
}

// Numbers of the plugin's DataType.
int type_of_hparam(const HParam& from) {
  constexpr int kBool = 2, kFloat64 = 3, kString = 1;
  if (std::holds_alternative<bool>(from)) return kBool;
  return std::holds_alternative<double>(from) ? kFloat64 : kString;
}

std::string encode_column(const HParamColumn& from) {
  Builder<wire::HParamInfo> to;
  to.put_bytes(wire::HParamInfo::kName, from.name);
  to.add_bytes(wire::HParamInfo::kDisplayName, from.display_name);
  if (from.domain.empty()) return to.take();
  to.put_varint(wire::HParamInfo::kType, type_of_hparam(from.domain[0]));
  Builder<wire::JsonList> domain;
  for (const HParam& value : from.domain)
    domain.put_bytes(wire::JsonList::kValue, encode_hparam(value));
  to.put_bytes(wire::HParamInfo::kDomain, domain.bytes());
  return to.take();
}

std::string encode_metric(const HParamsMetric& from) {
  Builder<wire::MetricName> name;
  name.add_bytes(wire::MetricName::kGroup, from.group);
  name.add_bytes(wire::MetricName::kTag, from.tag);
  Builder<wire::MetricInfo> to;
  to.put_bytes(wire::MetricInfo::kName, name.bytes());
  to.add_bytes(wire::MetricInfo::kDisplayName, from.display_name);
  return to.take();
}

// The page reads the plugin's content; the tensor exists because every summary has one.
SummaryValue hparams_summary(const char* tag, wire::HParamsData field, const std::string& message) {
  Builder<wire::HParamsData> content;
  content.put_bytes(field, message);
  return {tag, TensorSummary{.plugin = "hparams",
                             .plugin_content = content.take(),
                             .type = TensorType::kFloat32,
                             .content = std::string(sizeof(float), '\0')}};
}

}  // namespace

SummaryValue hparams_experiment(const std::vector<HParamColumn>& hparams,
                                const std::vector<HParamsMetric>& metrics, double created) {
  Builder<wire::Experiment> to;
  to.add_fixed(wire::Experiment::kCreated, created);
  for (const HParamColumn& column : hparams)
    to.put_bytes(wire::Experiment::kHParam, encode_column(column));
  for (const HParamsMetric& metric : metrics)
    to.put_bytes(wire::Experiment::kMetric, encode_metric(metric));
  return hparams_summary("_hparams_/experiment", wire::HParamsData::kExperiment, to.bytes());
}

SummaryValue hparams_session_start(const std::map<std::string, HParam>& hparams,
                                   const std::string& group, double started) {
  Builder<wire::SessionStart> to;
  for (const auto& [name, value] : hparams) {
    Builder<wire::HParamEntry> entry;
    entry.put_bytes(wire::HParamEntry::kKey, name);
    entry.put_bytes(wire::HParamEntry::kValue, encode_hparam(value));
    to.put_bytes(wire::SessionStart::kHParam, entry.bytes());
  }
  to.add_bytes(wire::SessionStart::kGroup, group);
  to.add_fixed(wire::SessionStart::kStarted, started);
  return hparams_summary("_hparams_/session_start_info", wire::HParamsData::kSessionStart,
                         to.bytes());
}

SummaryValue hparams_session_end(SessionResult result, double ended) {
  Builder<wire::SessionEnd> to;
  to.put_varint(wire::SessionEnd::kStatus, static_cast<int>(result));
  to.add_fixed(wire::SessionEnd::kEnded, ended);
  return hparams_summary("_hparams_/session_end_info", wire::HParamsData::kSessionEnd, to.bytes());
}

}  // namespace muster::inline v0_1::formats
