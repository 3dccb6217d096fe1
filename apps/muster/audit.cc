#include "apps/muster/audit.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "muster/base/error.h"
#include "muster/base/small_file.h"
#include "muster/base/text_table.h"

namespace muster::app {
namespace {

using formats::Audit;
using formats::AuditEpoch;
using formats::AuditRange;

constexpr size_t kShownRanges = 10;           // of each kind and epoch
constexpr uint64_t kMostAudit = 64ull << 20;  // bytes of a file

int64_t examples_in(const std::vector<AuditRange>& ranges) {
  int64_t examples = 0;
  for (const AuditRange& range : ranges) examples += range.end - range.begin;
  return examples;
}

nlohmann::json json_of(const std::vector<AuditRange>& ranges) {
  nlohmann::json list = nlohmann::json::array();
  for (const AuditRange& range : ranges) list.push_back({range.begin, range.end});
  return list;
}

std::string name_of(const AuditEpoch& epoch) {
  std::string name = fmt::format("epoch {}", epoch.epoch);
  if (epoch.tasks > 1) name += fmt::format(" of task {} of {}", epoch.task, epoch.tasks);
  if (epoch.order > 0) name += fmt::format(", after input restart {}", epoch.order);
  return name;
}

std::string audit_json(const Audit& audit) {
  nlohmann::json epochs = nlohmann::json::array();
  for (const AuditEpoch& epoch : audit.epochs) {
    epochs.push_back({{"order", epoch.order},
                      {"task", epoch.task},
                      {"tasks", epoch.tasks},
                      {"epoch", epoch.epoch},
                      {"size", epoch.size < 0 ? nlohmann::json() : nlohmann::json(epoch.size)},
                      {"once", epoch.once},
                      {"twice", json_of(epoch.twice)},
                      {"never", json_of(epoch.never)},
                      {"left_out", json_of(epoch.left_out)}});
  }
  const nlohmann::json document{
      {"starts", audit.attempts},       {"last_step", audit.last_step},
      {"lost_steps", audit.lost_steps}, {"missing_steps", audit.missing_steps},
      {"contradictions", audit.doubts}, {"clean", audit.clean()},
      {"epochs", std::move(epochs)}};
  return document.dump(2) + "\n";
}

// "places 16 to 17, 40": of an epoch's order.
std::string places_text(const std::vector<AuditRange>& ranges) {
  std::string text = "places ";
  for (size_t i = 0; i < std::min(ranges.size(), kShownRanges); ++i) {
    if (i > 0) text += ", ";
    text += fmt::format("{}", ranges[i].begin);
    if (ranges[i].end > ranges[i].begin + 1) text += fmt::format(" to {}", ranges[i].end - 1);
  }
  if (ranges.size() > kShownRanges)
    text += fmt::format(" and {} more (all with --json)", ranges.size() - kShownRanges);
  return text;
}

}  // namespace

std::vector<formats::AuditSegment> read_audit(FileSystem& files, const std::string& model_dir) {
  const std::string folder = join_path(model_dir, "audit");
  const auto names = files.list_directory(folder);
  if (!names.ok() && names.error().kind() != ErrorKind::kNotFound) throw names.error();
  std::vector<formats::AuditSegment> segments;
  for (const std::string& name : names.ok() ? names.value() : std::vector<std::string>()) {
    if (formats::attempt_of_audit_file(name) == 0) continue;
    const std::string path = join_path(folder, name);
    const std::string text = read_small_file(files, path, kMostAudit).value();
    segments.push_back(formats::parse_audit_segment(text, path).value());
  }
  if (segments.empty()) {
    if (!files.info(model_dir).ok()) {
      throw not_found(fmt::format("{} does not exist", model_dir),
                      "pass the model_dir of a run with RunConfig::audit");
    }
    throw not_found(fmt::format("{} has no record of used examples", model_dir),
                    "a run writes one if RunConfig::audit is set");
  }
  return segments;
}

std::string show_audit(const Audit& audit, bool json) {
  if (json) return audit_json(audit);
  std::string text =
      fmt::format("steps 1 to {}, {} start{} of the run, {} lost steps\n", audit.last_step,
                  audit.attempts, audit.attempts == 1 ? "" : "s", audit.lost_steps);
  TextTable table({"epoch", ">examples", ">once", ">twice or more", ">never", ">left out"});
  for (const AuditEpoch& epoch : audit.epochs) {
    table.add({name_of(epoch),
               epoch.size < 0 ? "not ended" : with_commas(static_cast<uint64_t>(epoch.size)),
               with_commas(static_cast<uint64_t>(epoch.once)),
               with_commas(static_cast<uint64_t>(examples_in(epoch.twice))),
               with_commas(static_cast<uint64_t>(examples_in(epoch.never))),
               with_commas(static_cast<uint64_t>(examples_in(epoch.left_out)))});
  }
  text += table.text("  ");
  for (const AuditEpoch& epoch : audit.epochs) {
    if (!epoch.twice.empty())
      text += fmt::format("{}: used twice or more: {}\n", name_of(epoch), places_text(epoch.twice));
    if (!epoch.never.empty())
      text += fmt::format("{}: never used: {}\n", name_of(epoch), places_text(epoch.never));
  }
  for (const auto& [first, last] : audit.missing_steps)
    text += fmt::format("steps {} to {} have no record\n", first, last);
  for (const std::string& doubt : audit.doubts) text += doubt + "\n";
  if (audit.clean()) text += "each example was used once\n";
  return text;
}

}  // namespace muster::app
