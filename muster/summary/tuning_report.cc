#include "muster/summary/tuning_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

#include "muster/base/log.h"

namespace muster::inline v0_1::summary {
namespace {

constexpr size_t kLines = 100;

// A pipe's other end would be waited for.
bool is_pipe(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_fifo(path, ignored);
}

// The whole lines of the existing file.
std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  if (is_pipe(path)) return lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.ends_with('}')) lines.push_back(line);
  }
  return lines;
}

// The reported values: the names, and the numbers.
std::vector<std::pair<std::string, double>> chosen(
    const std::string& tag, const std::string& folder,
    const std::vector<std::pair<std::string, double>>& values) {
  const bool own_names = folder == "eval" || folder == "validation";
  std::vector<std::pair<std::string, double>> all;
  for (const auto& [name, value] : values) {
    if (!std::isfinite(value)) continue;
    const std::string with_folder = folder + "/" + name;
    if (tag == with_folder || (own_names && tag == name)) return {{tag, value}};
    all.emplace_back(own_names ? name : with_folder, value);
  }
  return all;
}

// Written in place, as the package does: a reader may have the file open.
bool write(const std::string& path, const std::vector<std::string>& lines) {
  std::error_code ignored;  // a folder that cannot be made shows when the file is opened
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  errno = is_pipe(path) ? EINVAL : 0;
  if (errno != 0) return false;
  std::ofstream file(path, std::ios::trunc);
  const size_t first = lines.size() - std::min(lines.size(), kLines);
  for (size_t i = first; i < lines.size(); ++i) file << lines[i] << '\n';
  file.close();
  return !file.fail();
}

}  // namespace

void report_to_tuner(const Environment& environment, Clock& clock, const std::string& folder,
                     const std::vector<std::pair<std::string, double>>& values, int64_t step) {
  const std::string trial = environment.get_or("CLOUD_ML_TRIAL_ID", "");
  if (trial.empty() || values.empty()) return;
  std::string path = environment.get_or("CLOUD_ML_HP_METRIC_FILE", "");
  if (path.empty()) path = kTuningReportFile;
  std::vector<std::string> lines = lines_of(path);
  const std::string tag = environment.get_or("CLOUD_ML_HP_METRIC_TAG", "");
  for (const auto& [name, value] : chosen(tag, folder, values)) {
    const nlohmann::json line = {{"timestamp", clock.wall_seconds()},
                                 {"trial", trial},
                                 {name, fmt::format("{}", value)},
                                 {"global_step", fmt::format("{}", step)}};
    lines.push_back(line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  }
  if (write(path, lines)) return;
  log::warning(
      fmt::format("the metrics of step {} cannot be reported to the hyper-parameter tuning "
                  "service: cannot write {}{}{}",
                  step, path, errno == 0 ? "" : ": ", errno == 0 ? "" : std::strerror(errno)));
}

}  // namespace muster::inline v0_1::summary
