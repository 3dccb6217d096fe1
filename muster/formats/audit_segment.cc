#include "muster/formats/audit_segment.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <tuple>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/json.h"

namespace muster::inline v0_1::formats {
namespace {

using nlohmann::json;

constexpr const char* kAuditFormat = "muster.audit.1";

json json_of(const std::vector<AuditRange>& ranges) {
  json list = json::array();
  for (const AuditRange& range : ranges) list.push_back({range.epoch, range.begin, range.end});
  return list;
}

std::vector<AuditRange> ranges_of(const json& list) {
  std::vector<AuditRange> ranges;
  for (const json& item : list) {
    ranges.push_back(
        {item.at(0).get<int64_t>(), item.at(1).get<int64_t>(), item.at(2).get<int64_t>()});
    if (ranges.back().begin < 0 || ranges.back().end < ranges.back().begin)
      throw corrupt("a range of examples ends before it begins");
  }
  return ranges;
}

// Of one task, in the order in which they were written.
struct Course {
  std::vector<AuditSegment> kept{};
  std::vector<int64_t> orders{};  // of each that is kept
  int64_t lost = 0;
};

// What a later start of the run continued without is void.
Course course_of(const std::vector<AuditSegment>& segments, std::vector<std::string>& doubts) {
  Course course;
  int64_t attempt = 0, order = 0;
  for (const AuditSegment& segment : segments) {
    if (segment.attempt != attempt) {
      while (!course.kept.empty() && course.kept.back().last_step > segment.from_step) {
        const AuditSegment& gone = course.kept.back();
        if (gone.first_step <= segment.from_step) {
          doubts.push_back(fmt::format(
              "start {} of the run began after step {}, inside of the record of steps {} to {}",
              segment.attempt, segment.from_step, gone.first_step, gone.last_step));
        }
        course.lost += gone.last_step - std::max(gone.first_step, segment.from_step + 1) + 1;
        course.kept.pop_back();
        course.orders.pop_back();
      }
      if (!course.orders.empty()) order = course.orders.back();
      attempt = segment.attempt;
      if (segment.new_order) ++order;
    }
    course.kept.push_back(segment);
    course.orders.push_back(order);
  }
  return course;
}

// Counts how often each place of an epoch was used.
void judge_epoch(AuditEpoch& epoch, std::vector<AuditRange> used) {
  std::map<int64_t, int64_t> changes;  // of the number of uses, by place
  int64_t end = 0;
  for (const AuditRange& range : used) {
    ++changes[range.begin];
    --changes[range.end];
    end = std::max(end, range.end);
  }
  if (epoch.size >= 0) end = epoch.size;
  changes.try_emplace(0, 0);
  changes.try_emplace(end, 0);
  int64_t uses = 0;
  for (auto at = changes.begin(); std::next(at) != changes.end(); ++at) {
    uses += at->second;
    const AuditRange range{epoch.epoch, at->first, std::next(at)->first};
    if (uses == 1) epoch.once += range.end - range.begin;
    if (uses > 1) add_range(epoch.twice, range);
    if (uses == 0 && range.begin < end) add_range(epoch.never, range);
  }
}

}  // namespace

std::string audit_file_name(const AuditSegment& segment) {
  return fmt::format("{:06}-{}-{}-task-{}-of-{}.json", segment.attempt, segment.first_step,
                     segment.last_step, segment.task, segment.tasks);
}

int64_t attempt_of_audit_file(std::string_view name) {
  long long attempt = 0, first = 0, last = 0;
  int end = 0;
  const std::string text(name);
  if (std::sscanf(text.c_str(), "%6lld-%lld-%lld-task-%n", &attempt, &first, &last, &end) != 3 ||
      end == 0)
    return 0;
  return attempt;
}

std::string encode_audit_segment(const AuditSegment& segment) {
  json epochs = json::array();
  for (const auto& [epoch, size] : segment.epochs) epochs.push_back({epoch, size});
  const json document{{"format", kAuditFormat},
                      {"attempt", segment.attempt},
                      {"from_step", segment.from_step},
                      {"new_order", segment.new_order},
                      {"task", segment.task},
                      {"tasks", segment.tasks},
                      {"steps", {segment.first_step, segment.last_step}},
                      {"used", json_of(segment.used)},
                      {"left_out", json_of(segment.left_out)},
                      {"epochs", std::move(epochs)},
                      {"rows", segment.rows}};
  return document.dump() + "\n";
}

Result<AuditSegment> parse_audit_segment(std::string_view text, const std::string& path) {
  Result<json> parsed = parse_json(text, path, ErrorKind::kCorrupt);
  if (!parsed.ok()) return parsed.error();
  const auto wrong = [&](const char* why) {
    return corrupt(fmt::format("{} is not a record of used examples: {}", path, why));
  };
  try {
    const json& document = parsed.value();
    if (document.at("format").get<std::string>() != kAuditFormat)
      return wrong("it has another format");
    AuditSegment segment{.attempt = document.at("attempt").get<int64_t>(),
                         .from_step = document.at("from_step").get<int64_t>(),
                         .new_order = document.at("new_order").get<bool>(),
                         .task = document.at("task").get<int64_t>(),
                         .tasks = document.at("tasks").get<int64_t>(),
                         .first_step = document.at("steps").at(0).get<int64_t>(),
                         .last_step = document.at("steps").at(1).get<int64_t>(),
                         .used = ranges_of(document.at("used")),
                         .left_out = ranges_of(document.at("left_out")),
                         .rows = document.at("rows").get<int64_t>()};
    for (const json& epoch : document.at("epochs"))
      segment.epochs[epoch.at(0).get<int64_t>()] = epoch.at(1).get<int64_t>();
    return segment;
  } catch (const json::exception& error) {
    return wrong(error.what());
  } catch (const Error& error) {
    return wrong(error.message().c_str());
  }
}

void add_range(std::vector<AuditRange>& ranges, const AuditRange& range) {
  if (range.begin == range.end) return;
  if (!ranges.empty() && ranges.back().epoch == range.epoch && ranges.back().end == range.begin) {
    ranges.back().end = range.end;
  } else {
    ranges.push_back(range);
  }
}

bool Audit::clean() const {
  return missing_steps.empty() && doubts.empty() &&
         std::ranges::all_of(epochs, [](const AuditEpoch& epoch) {
           return epoch.twice.empty() && epoch.never.empty();
         });
}

Audit audit(std::vector<AuditSegment> segments) {
  using Key = std::pair<int64_t, int64_t>;  // the number of tasks, and the task
  std::ranges::sort(segments, {}, [](const AuditSegment& segment) {
    return std::tuple(segment.attempt, segment.first_step, segment.tasks, segment.task);
  });
  Audit result;
  std::map<Key, std::vector<AuditSegment>> of_tasks;
  for (AuditSegment& segment : segments) {
    result.attempts = std::max(result.attempts, segment.attempt);
    of_tasks[{segment.tasks, segment.task}].push_back(std::move(segment));
  }
  std::map<std::tuple<int64_t, Key, int64_t>, AuditEpoch> epochs;  // by order, task, epoch
  std::map<std::tuple<int64_t, Key, int64_t>, std::vector<AuditRange>> used;
  std::vector<std::pair<int64_t, int64_t>> steps;
  for (const auto& [key, of_task] : of_tasks) {
    const Course course = course_of(of_task, result.doubts);
    result.lost_steps = std::max(result.lost_steps, course.lost);
    for (size_t i = 0; i < course.kept.size(); ++i) {
      const AuditSegment& segment = course.kept[i];
      const auto epoch_of = [&](int64_t epoch) -> AuditEpoch& {
        AuditEpoch& it = epochs[{course.orders[i], key, epoch}];
        it.order = course.orders[i];
        it.tasks = key.first;
        it.task = key.second;
        it.epoch = epoch;
        return it;
      };
      int64_t examples = 0;
      for (const AuditRange& range : segment.used) {
        (void)epoch_of(range.epoch);
        used[{course.orders[i], key, range.epoch}].push_back(range);
        examples += range.end - range.begin;
      }
      for (const AuditRange& range : segment.left_out)
        add_range(epoch_of(range.epoch).left_out, range);
      for (const auto& [epoch, size] : segment.epochs) epoch_of(epoch).size = size;
      if (segment.tasks == 1 && examples != segment.rows) {
        result.doubts.push_back(
            fmt::format("steps {} to {} read {} examples, and their updates had {} rows",
                        segment.first_step, segment.last_step, examples, segment.rows));
      }
      steps.emplace_back(segment.first_step, segment.last_step);
    }
  }
  std::ranges::sort(steps);
  for (const auto& [first, last] : steps) {
    if (first > result.last_step + 1)
      result.missing_steps.emplace_back(result.last_step + 1, first - 1);
    result.last_step = std::max(result.last_step, last);
  }
  for (auto& [key, epoch] : epochs) {
    judge_epoch(epoch, std::move(used[key]));
    result.epochs.push_back(std::move(epoch));
  }
  return result;
}

}  // namespace muster::inline v0_1::formats
