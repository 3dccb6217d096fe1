#include "muster/jobs/search_job.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/exit_code.h"
#include "muster/base/file_system.h"
#include "muster/base/json.h"
#include "muster/base/log.h"
#include "muster/base/strings.h"
#include "muster/files/file_systems.h"
#include "muster/jobs/internal/local_state.h"
#include "muster/jobs/job_spec_json.h"
#include "muster/jobs/search_report.h"
#include "muster/jobs/search_run.h"
#include "muster/jobs/submit.h"
#include "muster/jobs/target_trials.h"
#include "muster/jobs/task_start.h"
#include "muster/launch/run.h"

namespace muster::inline v0_1::jobs {
namespace {

constexpr const char* kSearch = "search";  // of JobRecord::details
constexpr int kShownTrials = 3;            // by --dry-run
// For trials that outlived a search: they save, as when it is stopped.
constexpr Duration kEndTime = std::chrono::seconds(120);

std::string summary_of(const Search& search, const JobSpec& job) {
  if (!search.done()) return "the search is interrupted; the same command goes on with it";
  std::string text;
  if (!search.gave_up().empty()) text = search.gave_up() + "\n";
  if (const Trial* best = search.best()) {
    text += fmt::format("the best is trial {}, in {}\n", best->number,
                        join_path(job.job_dir, std::to_string(best->number)));
  } else {
    text += "no trial has measured anything\n";
  }
  if (search.has_measured())
    text += fmt::format("the picture is {}\n", join_path(job.job_dir, "search.svg"));
  return text + fmt::format("the logs of the trials: muster jobs logs {}", job.name);
}

// The searches of the store that have that job directory, the newest last.
std::vector<JobRecord> searches_in(const JobStore& store, const std::string& job_dir) {
  std::vector<JobRecord> records = store.list();
  std::erase_if(records, [&](const JobRecord& record) {
    return !is_search(record) || record.job_dir != job_dir;
  });
  return records;
}

Error runs_already(const JobRecord& record) {
  return invalid_argument(
      fmt::format("the search {} in {} is run by another process", record.name, record.job_dir),
      fmt::format("follow it: muster jobs logs --follow {}", record.name));
}

// Trials that an earlier search left running in the job directory would be started a second time in
// parallel. Throws if this process cannot end them.
void check_left(const JobRecord& earlier, const Target& target) {
  const auto state = internal::read_state(earlier.folder);
  const bool ended = state && is_final(state->status.state);
  if (state && !ended && !internal::is_here(state->keeper)) {
    throw invalid_argument(
        fmt::format("the job directory {} is that of the search {}, which runs on {}",
                    earlier.job_dir, earlier.name, state->keeper.host),
        fmt::format("go on with it there, or end it there: muster jobs cancel {}", earlier.name));
  }
  if (ended || earlier.target == target.name()) return;
  throw invalid_argument(
      fmt::format("the search {} in {} was killed, and its trials may run on, on {}", earlier.name,
                  earlier.job_dir, earlier.target),
      fmt::format("end them first: muster jobs cancel {}", earlier.name));
}

// The record of the search in the folder, if that search continues; nothing if it begins. A search
// that was killed before its first trial, or whose folder was emptied, begins under its record if
// it has the name that the job asks for.
std::optional<JobRecord> goes_on_as(const JobStore& store, const Target& target, const JobSpec& job,
                                    const std::string& job_dir) {
  if (job.name.empty() && !file_systems().exists(join_path(job.job_dir, kSearchFile)).value()) {
    return std::nullopt;
  }
  std::optional<JobRecord> newest;
  for (const JobRecord& earlier : searches_in(store, job_dir)) {
    if (earlier.target != target.name() || (!job.name.empty() && job.name != earlier.name))
      continue;
    newest = earlier;
  }
  return newest;
}

// The record that the job has, or will have: of these the name, the target, the job directory, the
// command and the folder. Sets the job's name.
struct Place {
  JobRecord record;
  bool is_new = true;
};
Place place_of(const JobStore& store, const Target& target, JobSpec& job) {
  JobSpec named = job;
  const JobRecord preview = preview_job(store, target, named);
  std::optional<JobRecord> earlier = goes_on_as(store, target, job, preview.job_dir);
  Place place{.record = earlier.value_or(preview), .is_new = !earlier};
  place.record.command = preview.command;
  place.record.commands = preview.commands;
  job.name = place.record.name;
  return place;
}

// The number that the first trial of the search has, for --dry-run; 1 if it would not be run.
int first_number(const JobSpec& job, uint64_t seed) {
  try {
    return known_search(job, file_systems(), seed).first();
  } catch (const Error&) {
    return 1;
  }
}

// Asks for the status of the jobs that may have the directory of a search. Running trials of this
// search are no hindrance: they are ended.
StatusOf status_beside(const StatusOf& status_of, const Target& target) {
  return [&](const JobRecord& one) {
    JobStatus status = status_of(one);
    if (is_search(one) && one.target == target.name()) status.left = 0;
    return status;
  };
}

}  // namespace

SearchJobResult run_search_job(JobStore& store, Target& target, JobSpec job, Clock& clock,
                               const SearchJobOptions& options) {
  internal::LocalState state{.status = {.state = JobState::kRunning},
                             .keeper = internal::keeper_of(getpid())};
  FileDescriptor lock;
  const auto complete = [&](JobRecord& made) {
    lock = internal::lock_folder(made.folder);
    if (!lock.is_open()) throw runs_already(made);
    made.id = std::to_string(getpid());
    made.details[kSearch] = fmt::format("{} trials", job.search ? job.search->max_trials : 0);
    // A search that continues may have been cancelled before.
    local_file_system().remove_tree(join_path(made.folder, internal::kCancelFile)).value();
    internal::write_state(made.folder, state);
    local_file_system()
        .write_atomically(join_path(made.folder, internal::kJobFile), to_json_text(job))
        .value();
  };
  const std::string wanted_name = job.name;
  const auto [place, is_new] = place_of(store, target, job);
  (void)known_search(job, file_systems(), options.seed);
  for (const JobRecord& earlier : searches_in(store, place.job_dir)) check_left(earlier, target);
  // Another process may take a free name at this moment; then the claim finds the next.
  if (is_new) job.name = wanted_name;
  const StatusOf status_of = status_beside(options.status_of, target);
  JobRecord record;
  {
    Claim claim = is_new ? claim_job(store, target, job, clock, status_of, complete)
                         : claim_again(store, place, job, clock, status_of, complete);
    forget_earlier(store, claim);
    record = std::move(claim.record);
  }
  const auto finish = [&](JobState how, int code, const std::string& detail) {
    state.status = {.state = how, .exit_code = code, .detail = detail};
    internal::write_state(record.folder, state);
  };
  try {
    for (const JobRecord& earlier : searches_in(store, record.job_dir)) {
      if (earlier.target == target.name())
        end_trials(earlier, target, clock, kEndTime, options.interrupted);
    }
    TargetTrials trials(target, record, clock);
    const Search search = run_search(job, trials, file_systems(), clock,
                                     {.seed = options.seed, .interrupted = options.interrupted});
    SearchJobResult result{.table = search.trials().empty() ? "" : search_table(search),
                           .summary = summary_of(search, job)};
    const std::string first(result.summary.substr(0, result.summary.find('\n')));
    if (!search.done()) {
      result.exit_code = 130;
      finish(JobState::kCancelled, result.exit_code, first);
    } else {
      const bool gave_up = !search.gave_up().empty();
      result.exit_code = search.refused() != nullptr ? exit_code(ErrorKind::kInvalidArgument)
                         : gave_up || search.best() == nullptr ? 1
                                                               : 0;
      finish(result.exit_code == 0 ? JobState::kSucceeded : JobState::kFailed, result.exit_code,
             first);
    }
    return result;
  } catch (const Error& error) {
    // As `muster submit` ends, which can ask no scheduler for a restart.
    finish(JobState::kFailed, exit_code(error.kind()) == 2 ? 2 : 1, error.message());
    throw;
  }
}

std::vector<std::string> reasons_against_search(const JobStore& store, const Target& target,
                                                JobSpec job, const SearchJobOptions& options) {
  const StatusOf status_of = status_beside(options.status_of, target);
  JobSpec named = job;
  const Place place = place_of(store, target, named);
  std::vector<std::string> reasons;
  const auto check = [&](const std::function<void()>& act) {
    if (auto reason = reason_of(act)) reasons.push_back(std::move(*reason));
  };
  check([&] { (void)known_search(named, file_systems(), options.seed); });
  check([&] {
    for (const JobRecord& earlier : searches_in(store, place.record.job_dir))
      check_left(earlier, target);
    if (!place.is_new) check_job_dir(store, job.job_dir, status_of);
  });
  if (place.is_new) {
    for (std::string& reason : reasons_against(store, target, job, status_of))
      reasons.push_back(std::move(reason));
  }
  return reasons;
}

std::string describe_search_job(const JobStore& store, const Target& target, JobSpec job,
                                uint64_t seed) {
  JobRecord record = place_of(store, target, job).record;
  // As many as are shown may begin at a time.
  HyperParameterSearch what = job.search.value();
  what.max_parallel_trials = kShownTrials;
  const int number = first_number(job, seed);
  Search search(what, seed, number);
  std::string text = fmt::format("# {}, in {}\n{}", record.name, job.job_dir,
                                 search_plan(Search(*job.search, seed)));
  while (const auto trial = search.begin_next()) {
    const JobSpec one = trial_job(job, *trial);
    text += fmt::format("# trial {}, in {}\n", trial->number, one.job_dir);
    for (const Pool& pool : one.pools) {
      std::vector<std::string> words;
      for (const std::string& word : words_of(one, pool))
        words.push_back(launch::shell_quoted(word));
      text += fmt::format("#   {}: {}\n", pool.role, join(words, " "));
    }
  }
  const JobSpec first = trial_job(job, search.trial(number));
  record.name = first.name;
  record.folder = join_path(record.folder, fmt::format("trials/{}", number));
  record.job_dir = first.job_dir;
  return text + fmt::format("# what is started for trial {}\n", number) +
         target.describe(first, record);
}

bool is_search(const JobRecord& record) { return record.details.contains(kSearch); }

JobStatus search_status(const JobRecord& record, Target& target) {
  const bool kept = internal::is_kept(record.folder);
  const auto state = internal::read_state(record.folder);
  if (!state) return {.detail = "it never began", .forgotten = true};
  JobStatus status = state->status;
  const bool asked_to_end =
      kept && local_file_system().exists(join_path(record.folder, internal::kCancelFile)).value();
  if (asked_to_end && !is_final(status.state)) status.state = JobState::kEnding;
  if (kept) return status;
  const bool ended = is_final(status.state);
  if (!ended && !internal::is_here(state->keeper)) {
    status.state = JobState::kUnknown;
    status.detail = fmt::format("it runs on {}, where it can be asked for", state->keeper.host);
    return status;
  }
  const TrialsLeft left = trials_left(record, target, system_clock());
  status.left = static_cast<int>(left.running.size() + left.awaited.size());
  status.left_running = left.running;
  std::string run_on =
      left.running.empty() ? "" : fmt::format(", and {} of its trials run on", left.running.size());
  if (!left.awaited.empty()) {
    run_on += fmt::format(", and trial {}, whose submission did not end, may still come",
                          left.awaited.front());
  }
  if (ended) {
    status.detail += run_on;
    return status;
  }
  status.state = JobState::kFailed;
  status.detail = fmt::format(
      "the process that ran the search is gone{}; the same command goes on with it", run_on);
  return status;
}

std::optional<Search> found_by(const JobRecord& record, const std::vector<int>& running) {
  const std::string path = join_path(record.folder, internal::kJobFile);
  const JobSpec job = job_spec_from_json(local_file_system().read_file(path).value(), path);
  const std::string file = join_path(record.job_dir, kSearchFile);
  const Result<std::string> saved = file_systems().read_file(file);
  if (!saved.ok() && saved.error().kind() == ErrorKind::kNotFound) return std::nullopt;
  const nlohmann::json json = parse_json(saved.value(), file).value();
  const auto seed = json.find("seed");
  if (!job.search || seed == json.end() || !seed->is_number_unsigned()) {
    throw corrupt(file + " is not what this search wrote", kNewFolder);
  }
  Search search(*job.search, seed->get<uint64_t>());
  // Belongs to the search before, as long as this one, which begins after it, has not begun.
  if (!search.differences(json, file).empty()) return std::nullopt;
  const bool kept = internal::is_kept(record.folder);
  search.restore(json, file, kept ? TrialState::kRunning : TrialState::kInterrupted);
  for (const int number : running) search.runs_on(number);
  return search;
}

void cancel_search(const JobRecord& record, Target& target) {
  const auto end_keeper = [&] {
    local_file_system()
        .write_atomically(join_path(record.folder, internal::kCancelFile), std::string_view())
        .value();
    if (const auto state = internal::read_state(record.folder)) internal::end_keeper(state->keeper);
  };
  if (const auto state = internal::read_state(record.folder)) {
    if (!is_final(state->status.state)) internal::check_is_here(state->keeper, record.name);
  }
  if (internal::is_kept(record.folder)) return end_keeper();
  // Held, so that no process continues the search whose trials are ended here.
  const FileDescriptor lock = internal::lock_folder(record.folder);
  if (!lock.is_open()) return end_keeper();
  const auto state = internal::read_state(record.folder);
  if (!state) return;
  cancel_trials(record, target, system_clock());
  if (is_final(state->status.state)) return;
  internal::LocalState ended = *state;
  ended.status = {
      .state = JobState::kCancelled,
      .exit_code = kExitKilled,
      .detail = "the process that ran the search was killed, and its trials were ended"};
  internal::write_state(record.folder, ended);
}

}  // namespace muster::inline v0_1::jobs
