#include "muster/estimator/internal/evaluation_journal.h"

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/log.h"
#include "muster/base/secret.h"
#include "muster/base/uri.h"
#include "muster/checkpoint/checkpoint.h"
#include "muster/estimator/internal/metrics_json.h"

namespace muster::inline v0_1::internal {
namespace {

using nlohmann::json;

std::string line_of(const JournalEntry& entry, double time) {
  json line = {{"name", entry.name},       {"checkpoint", entry.checkpoint},
               {"version", entry.version}, {"metrics", json_of_metrics(entry.metrics)},
               {"task", entry.task},       {"time", time}};
  if (!entry.exports.empty()) line["exports"] = entry.exports;
  if (entry.is_final) line["final"] = true;
  if (!entry.run.empty()) line["run"] = entry.run;
  return line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

std::optional<JournalEntry> entry_of(std::string_view line) {
  const Result<json> parsed = parse_json(line, "a line");
  if (!parsed.ok()) return std::nullopt;
  try {
    const json& fields = parsed.value();
    JournalEntry entry{.name = fields.at("name").get<std::string>(),
                       .checkpoint = fields.at("checkpoint").get<std::string>(),
                       .version = fields.at("version").get<std::string>(),
                       .metrics = metrics_of_json(fields.at("metrics")),
                       .is_final = fields.value("final", false),
                       .task = fields.value("task", ""),
                       .run = fields.value("run", "")};
    if (fields.contains("exports"))
      entry.exports = fields.at("exports").get<std::map<std::string, std::string>>();
    if (!entry.metrics.contains("global_step")) return std::nullopt;
    return entry;
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

}  // namespace

Result<CheckpointFile> ask_checkpoint_file(const std::string& prefix, FileSystem& fs) {
  const Result<FileInfo> info = fs.info(checkpoint_file(prefix));
  if (!info.ok()) return info.error();
  const double saved_at = info.value().modified_seconds;
  return CheckpointFile{.name = std::string(base_name(prefix)),
                        .version = fmt::format("{} bytes, {:.6f}", info.value().size, saved_at),
                        .step = checkpoint_step(prefix),
                        .saved_at = saved_at};
}

CheckpointFile checkpoint_file_of(const std::string& prefix, FileSystem& fs) {
  return ask_checkpoint_file(prefix, fs)
      .value_or(CheckpointFile{
          .name = std::string(base_name(prefix)), .version = "", .step = checkpoint_step(prefix)});
}

int64_t JournalEntry::step() const { return static_cast<int64_t>(metrics.at("global_step")); }

EvaluationJournal::EvaluationJournal(const std::string& model_dir, FileSystem& fs, Clock& clock)
    : path_(join_path(model_dir, "evaluations.jsonl")),
      folder_(join_path(model_dir, "evaluations")),
      fs_(fs),
      clock_(clock),
      remote_(is_remote(model_dir)) {}

void EvaluationJournal::append(const JournalEntry& entry) {
  const double now = clock_.wall_seconds();
  std::string line = line_of(entry, now);
  const auto check = [](const Status& done) {
    if (done.ok()) return;
    throw Error(done.error().kind(),
                fmt::format("cannot note an evaluation: {}", done.error().message()),
                done.error().hint());
  };
  if (remote_) {
    const std::string name =
        fmt::format("{:017}-{}", static_cast<int64_t>(now * 1e6), random_secret().substr(0, 8));
    return check(fs_.write_atomically(join_path(folder_, name), line));
  }
  // A process that was killed while it wrote has left half a line.
  const Result<uint64_t> size = fs_.file_size(path_);
  if (size.ok() && size.value() > 0) {
    const Result<std::string> last = fs_.read_range(path_, size.value() - 1, 1);
    if (last.ok() && last.value() != "\n") line.insert(0, "\n");
  }
  const auto write = [&]() -> Status {
    auto writer = fs_.open_writer(path_);
    if (!writer.ok()) return writer.error();
    if (Status done = writer.value()->append(bytes_of(line)); !done.ok()) return done;
    return writer.value()->close();
  };
  check(write());
}

std::string EvaluationJournal::lines_of_folder() {
  const Result<std::vector<std::string>> names = fs_.list_directory(folder_);
  if (!names.ok() && names.error().kind() != ErrorKind::kNotFound) throw names.error();
  std::string lines;
  std::set<std::string> there;
  for (const std::string& name : names.value_or({})) {
    if (!seen_.contains(name)) {
      const Result<std::string> line = fs_.read_file(join_path(folder_, name));
      if (!line.ok()) continue;  // the next look tries again
      lines += line.value();
      if (!lines.ends_with('\n')) lines += '\n';
    }
    there.insert(name);
  }
  seen_ = std::move(there);
  return lines;
}

std::string EvaluationJournal::lines_of_file() {
  const Result<uint64_t> size = fs_.file_size(path_);
  if (!size.ok() && size.error().kind() != ErrorKind::kNotFound) throw size.error();
  if (!size.ok() || size.value() < read_) read_ = 0;  // it is another file, or none
  if (!size.ok() || size.value() == read_) return "";
  Result<std::string> text = fs_.read_range(path_, read_, size.value() - read_);
  if (!text.ok()) return "";  // replaced since: the next look reads the new one
  const size_t complete = text.value().rfind('\n') + 1;
  read_ += complete;
  return text.value().substr(0, complete);
}

std::string EvaluationJournal::read_lines() {
  const bool first = !std::exchange(looked_, true);
  // A journal copied from a store to a disk, or the reverse, has the other form; that form grows no
  // more.
  if (remote_) return (first ? lines_of_file() : "") + lines_of_folder();
  return (first ? lines_of_folder() : "") + lines_of_file();
}

std::vector<JournalEntry> EvaluationJournal::read_new() {
  std::vector<JournalEntry> entries;
  const std::string text = read_lines();
  std::string_view rest = text;
  for (size_t end; (end = rest.find('\n')) != std::string_view::npos; rest.remove_prefix(end + 1)) {
    const std::string_view line = rest.substr(0, end);
    if (line.empty()) continue;
    if (std::optional<JournalEntry> entry = entry_of(line)) {
      entries.push_back(*std::move(entry));
    } else {
      log::warning_once(
          fmt::format("{} holds a line that is no evaluation, which is passed over: {}", path_,
                      line.substr(0, 100)));
    }
  }
  return entries;
}

}  // namespace muster::inline v0_1::internal
