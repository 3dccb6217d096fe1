#include "muster/train/internal/step_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/log.h"
#include "muster/tensor/libtorch.h"
#include "muster/train/internal/clock_offset.h"

namespace muster::inline v0_1::internal {
namespace {

using distribute::ReplicaPlace;
using distribute::SpanRecorder;
using nlohmann::json;

constexpr int kMeetings = 8;

int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

std::vector<Meeting> meet(distribute::Exchange& exchange) {
  std::vector<Meeting> meetings(kMeetings);
  for (Meeting& meeting : meetings) {
    meeting.came = now_ns();
    exchange.reduce(distribute::ReduceOp::kSum, torch::zeros({1}));
    meeting.left = now_ns();
  }
  return meetings;
}

json meetings_json(const std::vector<Meeting>& meetings) {
  json all = json::array();
  for (const Meeting& meeting : meetings) all.push_back({meeting.came, meeting.left});
  return all;
}

std::vector<Meeting> meetings_of(const json& from) {
  std::vector<Meeting> meetings;
  for (const json& one : from) meetings.push_back({.came = one[0], .left = one[1]});
  return meetings;
}

json spans_json(const std::vector<formats::TimelineSpan>& spans) {
  json all = json::array();
  for (const auto& span : spans)
    all.push_back({span.name, span.track, span.begin, span.end, span.args});
  return all;
}

// The text of every replica, through a collective: they are in the same place of the same loop.
std::vector<std::string> gather_texts(distribute::Exchange& exchange, const std::string& mine) {
  Tensor bytes = torch::empty({static_cast<int64_t>(mine.size())}, at::kByte);
  std::memcpy(bytes.data_ptr(), mine.data(), mine.size());
  std::vector<std::string> texts;
  for (const Tensor& part : exchange.gather(bytes, 0)) {
    texts.emplace_back(static_cast<const char*>(part.data_ptr()),
                       static_cast<size_t>(part.numel()));
  }
  return texts;
}

// The report of one replica to the chief.
json described(const ReplicaPlace& place, const std::vector<Meeting>& meetings,
               const SpanRecorder::Recorded& recorded) {
  return {{"process", place.process},
          {"task", place.task.empty() ? "process" : place.task},
          {"of_replica", place.locals == 1 ? "" : fmt::format(" of replica {}", place.replica())},
          {"meetings", meetings_json(meetings)},
          {"spans", spans_json(recorded.spans)},
          {"left_out", recorded.left_out}};
}

// Adds the spans of a replica, on a clock that is `offset` behind its own, and their tracks.
void add_replica(const json& replica, int64_t offset, formats::Timeline& timeline) {
  for (const auto& [lane, name] :
       {std::pair(SpanRecorder::kSteps, "step"), {SpanRecorder::kReductions, "reduction"}}) {
    const auto track = static_cast<int>(timeline.tracks.size());
    for (const json& span : replica.at("spans")) {
      if (span[1] != lane) continue;
      timeline.spans.push_back({.name = span[0],
                                .track = track,
                                .begin = span[2].get<int64_t>() - offset,
                                .end = span[3].get<int64_t>() - offset,
                                .args = span[4]});
    }
    if (timeline.spans.empty() || timeline.spans.back().track != track) continue;
    timeline.tracks.push_back({.process = replica.at("process"),
                               .process_name = replica.at("task"),
                               .name = name + replica.at("of_replica").get<std::string>()});
  }
}

}  // namespace

void StepProfile::start(int64_t steps) {
  left_ = steps;
  steps_ = 0;
  date_ = clock_.wall_seconds();
  trace_.record_into(&recorder_);
  replica_.record_into(&recorder_);
}

void StepProfile::stop() {
  trace_.record_into(nullptr);
  replica_.record_into(nullptr);
  left_ = 0;
  over_ = steps_ > 0;
}

void StepProfile::note_step(int64_t global_step) {
  recorder_.add(SpanRecorder::kSteps, fmt::format("step {}", global_step), begin_,
                std::chrono::steady_clock::now(), {{"global_step", global_step}});
  last_step_ = global_step;
  ++steps_;
  if (--left_ == 0) stop();
}

void StepProfile::end_run() {
  if (left_ > 0) stop();
}

std::optional<formats::Timeline> StepProfile::gather() {
  over_ = false;
  const SpanRecorder::Recorded recorded = recorder_.take();
  const std::vector<Meeting> meetings = meet(replica_.exchange());
  const json mine = described(replica_.place(), meetings, recorded);
  const std::vector<std::string> texts = gather_texts(replica_.exchange(), mine.dump());
  if (!replica_.is_chief()) return {};

  formats::Timeline timeline;
  int64_t left_out = 0, uncertainty = 0;
  for (const std::string& text : texts) {
    const json replica = json::parse(text);
    const ClockOffset clock = clock_offset(meetings, meetings_of(replica.at("meetings")));
    add_replica(replica, clock.offset, timeline);
    left_out += replica.at("left_out").get<int64_t>();
    if (clock.offset != 0) uncertainty = std::max(uncertainty, clock.uncertainty);
  }
  timeline.notes = {
      {"last_step", fmt::format("{}", last_step_)},
      {"steps", fmt::format("{}", steps_)},
      {"unix_seconds", fmt::format("{:.6f}", date_)},
      {"clocks", uncertainty == 0 ? "tasks seem to share a clock"
                                  : fmt::format("compared to within {:.1f} us",
                                                static_cast<double>(uncertainty) * 1e-3)}};
  if (left_out > 0) {
    timeline.notes["left_out"] = fmt::format("{} spans", left_out);
    log::warning(
        fmt::format("the profile of {} steps up to step {} dropped {} spans, because it is full: "
                    "record fewer steps in a row",
                    steps_, last_step_, left_out));
  }
  return timeline;
}

}  // namespace muster::inline v0_1::internal
