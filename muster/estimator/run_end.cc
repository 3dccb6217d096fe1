#include "muster/estimator/run_end.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/json.h"

namespace muster::inline v0_1 {
namespace {

using nlohmann::json;

constexpr std::array kReasons = {
    std::pair{EndReason::kMaxSteps, "max_steps"}, std::pair{EndReason::kSteps, "steps"},
    std::pair{EndReason::kEndOfInput, "end_of_input"}, std::pair{EndReason::kHook, "hook"}};

std::string file_in(const std::string& model_dir) { return join_path(model_dir, "run_end.json"); }

}  // namespace

std::string describe(EndReason reason) {
  for (const auto& [known, word] : kReasons) {
    if (known == reason) return word;
  }
  throw invalid_argument(fmt::format("EndReason {} does not exist", static_cast<int>(reason)));
}

std::optional<RunEnd> read_run_end(const std::string& model_dir, FileSystem& fs) {
  const std::string path = file_in(model_dir);
  const Result<std::string> text = fs.read_file(path);
  if (!text.ok() && text.error().kind() == ErrorKind::kNotFound) return std::nullopt;
  const json written = parse_json(text.value(), path, ErrorKind::kCorrupt).value();
  const auto damaged = [&](const std::string& what) {
    return Error(ErrorKind::kCorrupt, fmt::format("{} {}: {}", path, what, written.dump()),
                 "remove the file: the next run writes it again");
  };
  if (!written.is_object() || !written.contains("reason") || !written.contains("global_step") ||
      !written["reason"].is_string() || !written["global_step"].is_number_integer()) {
    throw damaged("has no reason (a text) and no global_step (a whole number)");
  }
  std::string run;
  if (written.contains("run")) {
    if (!written["run"].is_string()) throw damaged("has a run that is not text");
    run = written["run"].get<std::string>();
  }
  for (const auto& [reason, word] : kReasons) {
    if (written["reason"] == word)
      return RunEnd{reason, written["global_step"].get<int64_t>(), std::move(run)};
  }
  throw damaged("has an unknown reason");
}

void write_run_end(const std::string& model_dir, const RunEnd& end, FileSystem& fs) {
  json text = {{"reason", describe(end.reason)}, {"global_step", end.global_step}};
  if (!end.run.empty()) text["run"] = end.run;
  const Status written = fs.write_atomically(file_in(model_dir), text.dump() + "\n");
  if (!written.ok()) throw written.error();
}

void remove_run_end(const std::string& model_dir, FileSystem& fs) {
  const std::string path = file_in(model_dir);
  const Status removed = fs.remove(path);
  if (removed.ok()) return;
  // If model_dir is not a folder, the next save reports it better.
  const Result<bool> stays = fs.exists(path);
  if (stays.value_or(true)) throw removed.error();
}

}  // namespace muster::inline v0_1
