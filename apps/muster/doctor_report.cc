#include <fmt/format.h>

#include <algorithm>

#include "apps/muster/doctor.h"

namespace muster::app {
namespace {

const char* color_of(Level level) {
  switch (level) {
    case Level::kOk:
      return "\033[32m";
    case Level::kNote:
      return "\033[36m";
    case Level::kWarning:
      return "\033[33m\033[1m";
    case Level::kProblem:
      return "\033[31m\033[1m";
  }
  return "";
}

int64_t count(const std::vector<Finding>& findings, Level level) {
  return std::ranges::count(findings, level, &Finding::level);
}

std::string plural(int64_t number, const char* word) {
  return fmt::format("{} {}{}", number, word, number == 1 ? "" : "s");
}

}  // namespace

std::string_view to_string(Level level) {
  switch (level) {
    case Level::kOk:
      return "ok";
    case Level::kNote:
      return "note";
    case Level::kWarning:
      return "warning";
    case Level::kProblem:
      return "problem";
  }
  return "?";
}

std::vector<Finding> judge(const DoctorFacts& facts) {
  std::vector<Finding> all = judge_probe(facts);
  for (Finding& finding : judge_machine(facts)) all.push_back(std::move(finding));
  for (Finding& finding : judge_environment(facts)) all.push_back(std::move(finding));
  return all;
}

int doctor_exit_code(const std::vector<Finding>& findings) {
  return count(findings, Level::kProblem) > 0 ? 1 : 0;
}

std::string doctor_text(const std::vector<Finding>& findings, bool color) {
  size_t width = 0;
  for (const Finding& finding : findings) width = std::max(width, finding.name.size());
  std::string text;
  const std::string indent(9, ' ');
  for (const Finding& finding : findings) {
    const std::string level = fmt::format("{:<7}", to_string(finding.level));
    text += color ? color_of(finding.level) + level + "\033[m" : level;
    text += fmt::format("  {:<{}}  {}\n", finding.name, width, finding.text);
    for (const std::string& detail : finding.details) text += indent + detail + "\n";
    if (!finding.fix.empty()) text += fmt::format("{}fix: {}\n", indent, finding.fix);
  }
  const int64_t problems = count(findings, Level::kProblem);
  const int64_t warnings = count(findings, Level::kWarning);
  text += "\n";
  if (problems > 0) {
    text += plural(problems, "problem");
    if (warnings > 0) text += " and " + plural(warnings, "warning");
    text += ": what is called a problem keeps training from working\n";
  } else if (warnings > 0) {
    text += plural(warnings, "warning") + ": training works, but not as well as it could\n";
  } else {
    text += "all is well\n";
  }
  return text;
}

nlohmann::json doctor_json(const std::vector<Finding>& findings, const DoctorFacts& facts) {
  nlohmann::json lines = nlohmann::json::array();
  for (const Finding& finding : findings) {
    lines.push_back({{"level", to_string(finding.level)},
                     {"name", finding.name},
                     {"text", finding.text},
                     {"details", finding.details},
                     {"fix", finding.fix}});
  }
  nlohmann::json interfaces = nlohmann::json::array();
  for (const NetworkInterface& interface : facts.machine.interfaces) {
    interfaces.push_back({{"name", interface.name},
                          {"addresses", interface.addresses},
                          {"loopback", interface.loopback},
                          {"up", interface.up}});
  }
  const MachineFacts& machine = facts.machine;
  return {{"version", facts.version},
          {"exit_code", doctor_exit_code(findings)},
          {"findings", std::move(lines)},
          {"machine",
           {{"cores", machine.cores.cores},
            {"usable_cores", machine.cores.usable},
            {"memory_bytes", machine.memory},
            {"memory_available_bytes", machine.memory_available},
            {"memory_limit_bytes", machine.memory_limit},
            {"open_files", machine.open_files},
            {"interfaces", std::move(interfaces)},
            {"host_name", machine.host_name},
            {"hosts", machine.hosts}}},
          {"probe", {{"path", facts.probe.path}, {"facts", facts.probe.facts}}}};
}

}  // namespace muster::app
