#include "muster/jobs/slurm_target.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>

#include "muster/base/error.h"
#include "muster/base/file_descriptor.h"
#include "muster/base/file_system.h"
#include "muster/base/log.h"
#include "muster/base/secret.h"
#include "muster/base/strings.h"
#include "muster/jobs/internal/answer.h"
#include "muster/jobs/internal/ask_patiently.h"
#include "muster/jobs/internal/slurm_files.h"
#include "muster/jobs/internal/tool.h"
#include "muster/jobs/job_spec_json.h"
#include "muster/jobs/local_target.h"
#include "muster/jobs/log_files.h"
#include "muster/jobs/slurm_script.h"
#include "muster/jobs/task_start.h"

namespace muster::inline v0_1::jobs {
namespace {

constexpr const char* kScript = "job.sbatch";
constexpr const char* kSlurmCancelled = "cancelled";
// Slurm's own commands give up after a hundred seconds where the controller does not answer.
constexpr std::chrono::seconds kDeadline{120};
// A question can be asked again; if no controller is up, it is answered after twenty seconds.
constexpr std::chrono::seconds kQuestionDeadline{30};

// Runs a command of Slurm's, and returns how it ended.
launch::CompletedProcess run_slurm(const std::vector<std::string>& words,
                                   std::chrono::seconds deadline = kDeadline) {
  return internal::run_tool(
      {.argv = words,
       .what = fmt::format("cannot run {}", words.front()),
       .install = "submit from a machine that has Slurm's commands, such as a login node",
       .asks = "Slurm",
       .deadline = deadline});
}

std::string line_of(const std::vector<std::string>& words) { return join(words, " "); }

std::string said(const launch::CompletedProcess& done) {
  const std::string_view text = trim(done.err.empty() ? done.out : done.err);
  return std::string(text.substr(0, text.find('\n')));
}

// Slurm could not be asked; the error contains `why`.
Error no_answer(const std::string& why) {
  return Error(ErrorKind::kUnavailable, "Slurm does not answer: " + why,
               "look whether its controller is up: scontrol ping; a machine outside of the cluster "
               "has no controller: submit from a login node");
}

// The line by which a command of Slurm says that it did not reach a controller, so that the job
// does not exist; nothing for other output.
std::optional<std::string> no_controller(const launch::CompletedProcess& done) {
  for (const std::string& line : split(done.err, '\n')) {
    for (const char* words :
         {"Unable to contact slurm controller", "Could not establish a configuration source",
          "Unable to establish controller", "Connection refused"}) {
      if (line.find(words) != std::string::npos) return std::string(trim(line));
    }
  }
  return std::nullopt;
}

// The value of " Key=" in a line of scontrol's; values have no blanks but at the end of the line.
std::string field(std::string_view line, std::string_view key) {
  const std::string wanted = fmt::format("{}=", key);
  for (size_t at = line.find(wanted); at != std::string_view::npos;
       at = line.find(wanted, at + 1)) {
    if (at > 0 && line[at - 1] != ' ') continue;
    const std::string_view rest = line.substr(at + wanted.size());
    return std::string(rest.substr(0, rest.find(' ')));
  }
  return "";
}

JobState state_of(std::string_view word, bool cancelled) {
  const auto is = [&](std::initializer_list<std::string_view> words) {
    return std::ranges::any_of(words, [&](std::string_view one) { return word.starts_with(one); });
  };
  if (is({"PENDING", "CONFIGURING", "REQUEUE", "SPECIAL_EXIT"})) return JobState::kQueued;
  // Its tasks have got the signal, or have ended, and the nodes are cleared.
  if (is({"COMPLETING"})) return JobState::kEnding;
  if (is({"RUNNING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING"}))
    return cancelled ? JobState::kEnding : JobState::kRunning;
  if (is({"COMPLETED"})) return JobState::kSucceeded;
  if (is({"CANCELLED", "REVOKED"})) return JobState::kCancelled;
  if (is({"FAILED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "BOOT_FAIL", "DEADLINE", "PREEMPTED"}))
    return cancelled ? JobState::kCancelled : JobState::kFailed;
  return JobState::kUnknown;
}

// Reads "2:0", an exit code and a signal.
std::optional<int> code_of(const std::string& text) {
  const auto parts = split(text, ':');
  const auto code = parse_int(parts.front());
  const auto number = parts.size() > 1 ? parse_int(parts[1]) : std::optional<int64_t>(0);
  if (!code || !number) return std::nullopt;
  return static_cast<int>(*number != 0 ? 128 + *number : *code);
}

void write_secret(const std::string& path) {
  const FileDescriptor file(
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  const std::string secret = random_secret();
  if (!file.is_open() ||
      write(file.get(), secret.data(), secret.size()) != static_cast<ssize_t>(secret.size())) {
    throw from_errno(errno, "cannot write the job's token to " + path);
  }
}

std::vector<std::string> task_names(const JobRecord& record) {
  const std::string path = join_path(record.folder, internal::kSlurmJobFile);
  const JobSpec job = job_spec_from_json(local_file_system().read_file(path).value(), path);
  std::vector<std::string> names;
  for (const JobTask& task : tasks_of(job)) names.push_back(task.name());
  return names;
}

bool is_there(const JobRecord& record, const char* file) {
  return local_file_system().exists(join_path(record.folder, file)).value_or(false);
}

// The state that the script wrote at its end, if Slurm has forgotten the job.
JobStatus remembered(const JobRecord& record) {
  JobStatus status;
  const auto text = local_file_system().read_file(join_path(record.folder, kSlurmExitFile));
  if (text.ok()) {
    if (const auto code = parse_int(trim(text.value()))) {
      status.exit_code = static_cast<int>(*code);
      status.state = *code == 0 ? JobState::kSucceeded : JobState::kFailed;
    }
  }
  if (status.state != JobState::kSucceeded && is_there(record, kSlurmCancelled))
    status.state = JobState::kCancelled;
  if (status.state == JobState::kUnknown) {
    status.detail = "Slurm does not know the job any more";
    status.forgotten = true;
  }
  return status;
}

}  // namespace

bool is_job_of_script(std::string_view scontrol, const std::string& script) {
  const std::string wanted = " Command=" + script;
  const size_t at = scontrol.find(wanted);
  if (at == std::string_view::npos) return false;
  const std::string_view rest = scontrol.substr(at + wanted.size());
  return rest.empty() || rest.starts_with(' ');
}

std::optional<std::string> job_of_comment(std::string_view squeue, const std::string& comment) {
  for (const std::string& line : split(squeue, '\n')) {
    const std::string_view text = trim(line);
    const size_t blank = text.find(' ');
    if (blank == std::string_view::npos || comment.empty()) continue;
    const std::string_view all = trim(text.substr(blank));
    // After a comment of the user's own.
    if (all != comment && !all.ends_with(kSlurmCommentEnd + comment)) continue;
    const std::string number(text.substr(0, blank));
    if (parse_int(number)) return number;
  }
  return std::nullopt;
}

JobStatus slurm_status(std::string_view scontrol, bool cancelled) {
  JobStatus status;
  const std::string word = field(scontrol, "JobState");
  status.state = state_of(word, cancelled);
  status.restarts = static_cast<int>(parse_int(field(scontrol, "Restarts")).value_or(0));
  const std::string reason = field(scontrol, "Reason");
  if (status.state == JobState::kQueued && reason != "None") {
    status.detail = fmt::format("waits: {}", reason);
  } else if (status.state == JobState::kFailed) {
    status.detail = fmt::format("Slurm says {}{}", word,
                                reason.empty() || reason == "None" ? "" : ", " + reason);
    status.may_return = word.starts_with("PREEMPTED") || word.starts_with("NODE_FAIL");
    status.was_taken_away = status.may_return;
  } else if (status.state == JobState::kUnknown) {
    status.detail = fmt::format("Slurm says '{}'", word);
  }
  if (is_final(status.state)) status.exit_code = code_of(field(scontrol, "ExitCode"));
  // Slurm reports 0 for a job that was taken out of the queue, which is not a success.
  if (status.state == JobState::kCancelled && status.exit_code == 0) {
    status.exit_code.reset();
    if (field(scontrol, "RunTime") == "00:00:00")
      status.detail = "it was cancelled before it began";
  }
  return status;
}

namespace {

// Slurm's status of the job; nothing if it does not know the job any more.
std::optional<JobStatus> ask(const JobRecord& record) {
  const std::vector<std::string> words = {"scontrol", "--oneliner", "show", "job", record.id};
  const auto done = run_slurm(words, kQuestionDeadline);
  if (done.status.ok()) {
    const std::string_view text = trim(done.out);
    if (field(text, "JobState").empty() || field(text, "Command").empty()) {
      throw internal::unexpected_answer(fmt::format("cannot ask Slurm for the job {}", record.name),
                                        line_of(words), done.out,
                                        "without a JobState and a Command");
    }
    if (!is_job_of_script(text, join_path(record.folder, kScript))) return std::nullopt;
    return slurm_status(text, is_there(record, kSlurmCancelled));
  }
  if (done.err.find("Invalid job id") != std::string::npos) return std::nullopt;
  throw no_answer(no_controller(done).value_or(said(done)));
}

}  // namespace

std::vector<std::string> SlurmTarget::check(const JobSpec& job) const {
  std::vector<std::string> notes = LocalTarget(muster_).check(job);
  // Accelerators are requested from Slurm.
  std::erase_if(notes, [](const std::string& note) {
    return note.find("is not asked for here") != std::string::npos;
  });
  const Pool* servers = job.pool("ps");
  const bool accelerated =
      std::ranges::any_of(job.pools, [](const Pool& pool) { return pool.accelerator.count > 0; });
  if (accelerated && servers != nullptr && servers->accelerator.count == 0) {
    notes.emplace_back("the tasks of a step are alike: parameter servers get accelerators too");
  }
  (void)slurm_script(job, {.muster = muster_, .folder = "/", .flags = flags_});
  check_sbatch_variables(Environment::process());
  return notes;
}

std::string SlurmTarget::describe(const JobSpec& job, const JobRecord& record) const {
  return slurm_script(
      job,
      {.muster = muster_, .folder = record.folder, .flags = flags_, .comment = record.submission});
}

bool SlurmTarget::recognise(JobRecord& record) {
  if (record.submission.empty()) return false;
  // Includes ended jobs, as long as Slurm knows them.
  const std::vector<std::string> words = {"squeue", "--me", "--noheader", "--states=all",
                                          "--format=%i %k"};
  const auto done = run_slurm(words, kQuestionDeadline);
  if (!done.status.ok()) throw no_answer(no_controller(done).value_or(said(done)));
  const auto number = job_of_comment(done.out, record.submission);
  if (number) record.id = *number;
  return number.has_value();
}

void SlurmTarget::submit(const JobSpec& job, JobRecord& record) {
  const auto path = [&](const char* name) { return join_path(record.folder, name); };
  local_file_system().write_atomically(path(internal::kSlurmJobFile), to_json_text(job)).value();
  local_file_system().write_atomically(path(kScript), describe(job, record)).value();
  write_secret(path(kSlurmTokenFile));
  // Without an answer the job may exist.
  const auto unclear = [&](const Error& error) {
    try {
      if (recognise(record)) {
        log::info(
            fmt::format("{}; but Slurm has accepted the job, as {}", error.message(), record.id));
        return;
      }
    } catch (const Error&) {
      // Then it is not known.
    }
    throw UnclearSubmission(error, record);
  };
  const std::vector<std::string> words = {"sbatch", "--parsable", path(kScript)};
  launch::CompletedProcess done;
  try {
    done = run_slurm(words);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kTimeout && error.kind() != ErrorKind::kUnavailable) throw;
    return unclear(error);
  }
  if (!done.status.ok()) {
    // "Socket timed out on send/recv operation": the controller is busy, and may have read it.
    if (done.err.find("timed out") != std::string::npos ||
        done.err.find("Zero Bytes were transmitted") != std::string::npos) {
      return unclear(Error(ErrorKind::kTimeout, "sbatch: " + said(done)));
    }
    if (const auto why = no_controller(done)) throw no_answer(*why);
    const bool accelerated = slurm_script(job, {.muster = muster_, .folder = "/", .flags = flags_})
                                 .find("--gpus-per-task") != std::string::npos;
    throw invalid_argument(
        fmt::format("sbatch refuses the job {}: {}", job.name, said(done)),
        accelerated ? "the job asks for accelerators; --no-accelerators asks for none, and "
                      "--slurm=--gres=gpu:NAME:1 in another way"
                    : "flags of sbatch are given as --slurm='--partition=NAME --account=NAME'");
  }
  // "17", or "17;cluster".
  record.id = split(trim(done.out), ';').front();
  if (!parse_int(record.id)) {
    record.id.clear();
    unclear(internal::unexpected_answer(fmt::format("cannot submit the job {}", job.name),
                                        line_of(words), done.out, "where a job's number belongs"));
  }
}

JobStatus SlurmTarget::status(const JobRecord& record) {
  JobStatus status = ask(record).value_or(remembered(record));
  for (const std::string& name : task_names(record)) {
    TaskStatus task{.name = name, .state = status.state};
    const auto file = internal::read_task(record.folder, name);
    // If a job waits to run again, the last status of its tasks no longer holds.
    if (file && status.state != JobState::kQueued) {
      task.place = file->host;
      task.exit_code = file->exit_code;
      if (file->exit_code)
        task.state = *file->exit_code == 0 ? JobState::kSucceeded : JobState::kFailed;
    }
    status.tasks.push_back(std::move(task));
  }
  tell_of_cancelling(status);
  const auto over = local_file_system().read_file(join_path(record.folder, kSlurmTimeOverFile));
  if (status.state == JobState::kFailed && over.ok())
    status.detail = fmt::format("it ran for longer than {} s", trim(over.value()));
  const auto failed = local_file_system().read_file(join_path(record.folder, kSlurmFailedFile));
  if (status.state == JobState::kFailed && failed.ok()) {
    const auto words = split(split(failed.value(), '\n').front(), ' ');
    const auto code = parse_int(words.front());
    if (words.size() == 2 && code) status.detail = failure_of(words[1], static_cast<int>(*code));
  }
  return status;
}

void SlurmTarget::logs(const JobRecord& record, const LogOptions& options, const LogSink& sink) {
  const std::vector<std::string> names = task_names(record);
  std::vector<LogFile> files;
  if (!options.task.empty()) {
    check_task(record, options.task, names);
    files.push_back({join_path(record.folder, options.task + ".log")});
  } else {
    files.push_back({join_path(record.folder, kSlurmBatchLog), "[slurm] "});
    for (const std::string& name : names)
      files.push_back({join_path(record.folder, name + ".log"), fmt::format("[{}] ", name)});
  }
  // The controller is asked once in a while, however often files are looked at.
  auto next = std::chrono::steady_clock::now();
  const auto ended = [&] {
    if (std::chrono::steady_clock::now() < next) return false;
    next = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    const auto state = internal::ask_patiently(options, [&] { return status(record).state; });
    return !state || is_final(*state) || *state == JobState::kUnknown;
  };
  read_logs(files, options, ended, sink);
}

void SlurmTarget::cancel(const JobRecord& record) {
  const auto status = ask(record);
  if (!status || is_over(*status)) return;
  local_file_system()
      .write_atomically(join_path(record.folder, kSlurmCancelled), std::string_view())
      .value();
  const auto done = run_slurm({"scancel", record.id});
  if (!done.status.ok()) {
    throw Error(ErrorKind::kUnavailable, fmt::format("scancel {}: {}", record.id, said(done)),
                "look whether Slurm's controller is up: scontrol ping");
  }
}

namespace internal {

void write_task(const std::string& folder, const std::string& task, const SlurmTaskFile& file) {
  nlohmann::ordered_json json = {{"host", file.host}};
  if (file.exit_code) json["exit_code"] = *file.exit_code;
  local_file_system().write_atomically(join_path(folder, task + ".json"), json.dump()).value();
}

std::optional<SlurmTaskFile> read_task(const std::string& folder, const std::string& task) {
  const auto text = local_file_system().read_file(join_path(folder, task + ".json"));
  if (!text.ok()) return std::nullopt;
  try {
    const nlohmann::json json = nlohmann::json::parse(text.value());
    SlurmTaskFile file{.host = json.at("host")};
    if (json.contains("exit_code")) file.exit_code = json.at("exit_code").get<int>();
    return file;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

}  // namespace internal

}  // namespace muster::inline v0_1::jobs
