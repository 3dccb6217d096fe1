// The values of TensorBoard's plugins, which TensorFlow 2 writes as tensors, in the form of those
// of TensorFlow 1. Thread safety: pure functions.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "muster/formats/hparams.h"
#include "muster/formats/summary_value.h"

namespace muster::inline v0_1::board {

// The numbers of a tensor; nothing for texts, and for bytes that are no whole number of elements.
std::optional<std::vector<double>> numbers_of(const formats::TensorSummary& tensor);

// The histogram of a value, if it is one: TensorFlow 2 writes rows of [left, right, count].
std::optional<formats::Histogram> histogram_of(const formats::SummaryValue& value);

// The encoded images of a value: one, or those after the width and the height of a tensor.
std::vector<std::string> images_of(const formats::SummaryValue& value);

// The encoded sounds of a value: one, or those of a tensor, with or without labels.
std::vector<std::string> sounds_of(const formats::SummaryValue& value);

// The texts of a value, and the shape that they have: {} for a single text.
struct Texts {
  std::vector<std::string> texts{};
  std::vector<int64_t> shape{};
};
std::optional<Texts> texts_of(const formats::SummaryValue& value);

// A curve of precision and recall, by rising thresholds.
struct PrecisionRecall {
  std::vector<double> precision{};
  std::vector<double> recall{};
  std::vector<double> true_positives{};
  std::vector<double> false_positives{};
};
// The curve of a value, if it is one: a tensor of six rows.
std::optional<PrecisionRecall> curve_of(const formats::SummaryValue& value);

// The beginning of a session, as hparams_session_start() of formats writes it.
struct SessionStart {
  std::map<std::string, formats::HParam> hparams{};
  double started = 0;  // Unix time, seconds; 0: not written
};
std::optional<SessionStart> session_start_of(const formats::SummaryValue& value);
// The end of a session.
struct SessionEnd {
  formats::SessionResult result = formats::SessionResult::kRunning;
  double ended = 0;  // Unix time, seconds; 0: not written
};
std::optional<SessionEnd> session_end_of(const formats::SummaryValue& value);

}  // namespace muster::inline v0_1::board
