// For tests: the bytes of event files.
#pragma once

#include <fstream>
#include <string>
#include <vector>

#include "muster/base/bytes.h"
#include "muster/formats/event.h"
#include "muster/formats/tfrecord.h"

namespace muster::inline v0_1::board {

constexpr double kTestStart = 1.7e9;  // Unix time of step 0
constexpr const char* kTestFile = "events.out.tfevents.1700000000.test";

inline std::string record_of(const std::string& payload) {
  std::string bytes;
  formats::append_tfrecord(bytes, bytes_of(payload));
  return bytes;
}
inline std::string record_of(const formats::Event& event) {
  return record_of(formats::encode_event(event).value());
}
// A record of values at a step, a second for each step after kTestStart.
inline std::string record_at(int64_t step, std::vector<formats::SummaryValue> values) {
  return record_of({.wall_time = kTestStart + static_cast<double>(step),
                    .step = step,
                    .values = std::move(values)});
}
inline std::string start_at(int64_t step) {
  return record_of({.wall_time = kTestStart,
                    .step = step,
                    .session_log = formats::SessionLog{.status = formats::SessionStatus::kStart}});
}
// The records of `loss` = 1 / step from `first` to `last`.
inline std::string losses(int64_t first, int64_t last) {
  std::string bytes;
  for (int64_t step = first; step <= last; ++step)
    bytes += record_at(step, {{"loss", 1.0F / static_cast<float>(step)}});
  return bytes;
}
// Adds to a file.
inline void append_to(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::app) << bytes;
}

}  // namespace muster::inline v0_1::board
