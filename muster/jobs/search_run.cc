#include "muster/jobs/search_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "muster/base/better.h"
#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/local_path.h"
#include "muster/base/log.h"
#include "muster/base/nearest.h"
#include "muster/base/strings.h"
#include "muster/formats/hparams.h"
#include "muster/formats/number_text.h"
#include "muster/jobs/commands.h"
#include "muster/jobs/metric_follower.h"
#include "muster/jobs/search_report.h"
#include "muster/jobs/task_start.h"
#include "muster/summary/event_writer.h"

namespace muster::inline v0_1::jobs {
namespace {

std::string described(const TrialValues& values) {
  std::string text;
  for (const auto& [name, value] : values)
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", name, value);
  return text;
}

// The values of a trial for TensorBoard's HParams page.
std::map<std::string, formats::HParam> hparams_of(const TrialValues& values) {
  std::map<std::string, formats::HParam> hparams;
  for (const auto& [name, text] : values) {
    double number = 0;
    if (formats::parse_number(text, &number)) {
      hparams[name] = number;
    } else {
      hparams[name] = text;
    }
  }
  return hparams;
}

// In a search's folder: the trials of one before that measured nothing.
constexpr const char* kBefore = "before";

Commands saved_commands(const nlohmann::json& saved, const std::string& path) {
  try {
    return saved.at("commands").get<Commands>();
  } catch (const nlohmann::json::exception&) {
    throw invalid_argument(fmt::format("{} does not say which program was run", path), kNewFolder);
  }
}

// The parts of the commands of an earlier search that these commands lack.
std::vector<std::string> differences(const Commands& then, const Commands& now) {
  std::vector<std::string> found;
  if (const auto words = words_not_in(now, then); !words.empty()) found.push_back(quoted(words));
  if (const auto words = words_not_in(then, now); !words.empty())
    found.push_back("no " + quoted(words));
  if (found.empty() && then != now) found.emplace_back("the same words in another order");
  return found;
}

class SearchRun {
 public:
  SearchRun(const JobSpec& job, TrialHost& host, FileSystem& files, Clock& clock,
            const SearchOptions& options)
      : job_(job),
        host_(host),
        files_(files),
        clock_(clock),
        options_(options),
        search_(known_search(job, files, options.seed)) {}

  Search run() {
    tell_where_it_is();
    try {
      while (!search_.done() && !options_.interrupted()) {
        begin_trials();
        if (search_.running() == 0) break;
        clock_.sleep_for(options_.poll_time);
        look();
      }
    } catch (...) {
      stop_all();
      throw;
    }
    if (search_.running() > 0) {
      log::info(
          fmt::format("stopping {} trials; the same command goes on with the search (Ctrl-C "
                      "again ends at once, and they run on)",
                      search_.running()));
      stop_all();
      search_.interrupt();
    }
    save();
    return std::move(search_);
  }

 private:
  struct Running {
    Running(const std::string& folder, const std::string& tag, FileSystem& files, Clock& clock)
        : metric(files, folder, tag), events(folder, files, clock) {}
    MetricFollower metric;
    summary::EventWriter events;
    bool asked_to_stop = false;
    bool told = false;  // that it cannot be stopped now
  };

  void tell_where_it_is() {
    if (search_.trials().empty()) {
      if (search_.first() == 1) return;
      const std::string aside = set_aside();
      log::info(
          fmt::format("no trial of the search before in {} has measured anything: the search "
                      "begins anew, with trial {}{}",
                      job_.job_dir, search_.first(), aside));
      // From here on the folder belongs to this search, whatever happens to its first trial.
      return save();
    }
    const auto ended = std::ranges::count_if(search_.trials(), [](const Trial& trial) {
      return trial.state != TrialState::kRunning && trial.state != TrialState::kInterrupted;
    });
    if (const auto begun = static_cast<int64_t>(search_.trials().size());
        begun > search_.what().max_trials) {
      log::warning(
          fmt::format("maxTrials is {}, and {} trials of the search have begun before: those count "
                      "all the same, and no more begin",
                      search_.what().max_trials, begun));
    }
    log::info(ended < search_.planned()
                  ? fmt::format("the search goes on: {} of {} trials have ended", ended,
                                search_.planned())
                  : fmt::format("all {} trials of the search have ended; it goes on with more "
                                "maxTrials (--max-trials)",
                                ended));
    if (const std::string why = search_.gave_up(); !why.empty()) {
      log::info(fmt::format("it had ended early, and tries the failed trials once more: {}", why));
      search_.try_again();
    }
  }

  // Moves the files of the earlier search's trials out of the way of this one's, and returns a text
  // that says so; "" if there were none. A store cannot rename folders.
  std::string set_aside() {
    const std::string aside = join_path(job_.job_dir, kBefore);
    const bool can_move = local_path(job_.job_dir).ok();
    bool any = false;
    for (int number = 1; number < search_.first(); ++number) {
      const std::string name = std::to_string(number);
      const std::string folder = join_path(job_.job_dir, name);
      if (!files_.exists(folder).value()) continue;
      any = true;
      if (!can_move) continue;
      files_.make_directories(aside).value();
      // If search.json was removed, an earlier trial may have had this number.
      std::string to = join_path(aside, name);
      for (int again = 2; files_.exists(to).value(); ++again)
        to = join_path(aside, fmt::format("{}-{}", name, again));
      files_.rename(folder, to).value();
    }
    if (!any) return "";
    return can_move ? fmt::format("; what its trials wrote is in {} now", aside)
                    : fmt::format("; what its trials wrote stays in {}, in the folders up to {}",
                                  job_.job_dir, search_.first() - 1);
  }

  // "trial 2 of 9"; for a search that began after another one "trial 5, number 2 of 9".
  std::string place_of(int number) const {
    const int first = search_.first();
    return first == 1 ? fmt::format("trial {} of {}", number, search_.last())
                      : fmt::format("trial {}, number {} of {},", number, number - first + 1,
                                    search_.planned());
  }

  void save() {
    nlohmann::json json = search_.to_json();
    json["commands"] = commands_of(job_);
    files_.make_directories(job_.job_dir).value();
    files_
        .write_atomically(join_path(job_.job_dir, kSearchFile),
                          json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n")
        .value();
    files_.write_atomically(join_path(job_.job_dir, "search.svg"), search_picture(search_)).value();
  }

  void begin_trials() {
    while (const auto trial = search_.begin_next()) {
      const JobSpec job = trial_job(job_, *trial);
      files_.make_directories(job.job_dir).value();
      const auto it =
          running_
              .try_emplace(trial->number, job.job_dir, search_.what().metric_tag, files_, clock_)
              .first;
      it->second.events.add_values(
          {formats::hparams_session_start(hparams_of(trial->values), "", clock_.wall_seconds())},
          0);
      it->second.events.flush();
      log::info(fmt::format("{} begins: {}", place_of(trial->number), described(trial->values)));
      save();  // if the process is killed from now on, the trial is on record
      try {
        host_.start(trial->number, job);
        search_.set_log(trial->number, host_.log_of(trial->number));
      } catch (const Error& error) {
        end(trial->number, TrialState::kFailed, error.message());
        continue;
      }
      save();
    }
  }

  // Looks at each trial once.
  void look() {
    std::vector<int> numbers;
    for (const auto& [number, state] : running_) numbers.push_back(number);
    for (const int number : numbers) {
      Running& trial = running_.at(number);
      // First whether it has ended, so that nothing it wrote is missed.
      const std::optional<int> code = host_.exit_code(number);
      if (const Status read = trial.metric.read(); !read.ok()) {
        // A bucket may be away for a while; the trial itself knows what to do.
        log::warning(fmt::format("trial {}: its events cannot be read now: {}", number,
                                 read.error().message()));
      }
      search_.measure(number, trial.metric.measurements(code.has_value()));
      if (code) {
        ended(number, *code);
      } else if (!trial.asked_to_stop && search_.should_stop(number)) {
        log::info(fmt::format("trial {} is stopped: with {:.6g} it fell behind", number,
                              *search_.trial(number).best(search_.what().maximize)));
        ask_to_stop(number, trial);
      }
    }
  }

  void ended(int number, int code) {
    const Running& trial = running_.at(number);
    if (trial.asked_to_stop) return end(number, TrialState::kStopped);
    if (code != 0) {
      const std::string words = host_.last_words(number);
      return end(number, TrialState::kFailed,
                 fmt::format("exit code {}{}{}", code, words.empty() ? "" : ": ", words), code);
    }
    if (trial.metric.measurements(/*ended=*/true).empty()) {
      const std::vector<std::string> names(trial.metric.names().begin(),
                                           trial.metric.names().end());
      // A tag is known without its folder too.
      std::vector<std::string> tags = names;
      for (const std::string& name : names) tags.emplace_back(base_name(name));
      const auto near = nearest(search_.what().metric_tag, tags);
      return end(
          number, TrialState::kFailed,
          fmt::format("it never wrote the summary '{}'; its event files have {}{}",
                      search_.what().metric_tag, names.empty() ? "no scalars" : join(names, ", "),
                      near ? fmt::format("; did you mean {}?", *near) : ""),
          code);
    }
    end(number, TrialState::kDone);
  }

  void end(int number, TrialState state, const std::string& failure = {},
           std::optional<int> exit_code = {}) {
    search_.finish(number, state, failure, exit_code);
    const auto node = running_.extract(number);
    const Trial& trial = search_.trial(number);
    const bool failed = trial.state == TrialState::kFailed;
    node.mapped().events.add_values(
        {formats::hparams_session_end(
            failed ? formats::SessionResult::kFailure : formats::SessionResult::kSuccess,
            clock_.wall_seconds())},
        0);
    node.mapped().events.close();
    if (failed) {
      // An error that an earlier trial printed is not printed again.
      const auto before = std::ranges::find_if(search_.trials(), [&](const Trial& one) {
        return one.number != number && one.state == TrialState::kFailed &&
               one.failure == trial.failure;
      });
      log::warning(fmt::format("trial {} failed{}{}{}", number,
                               before == search_.trials().end()
                                   ? ": " + trial.failure
                                   : fmt::format(" as trial {} did", before->number),
                               trial.log.empty() ? "" : "; its log: ", trial.log));
    } else {
      log::info(fmt::format("trial {} is {}: {} {:.6g}", number, to_string(trial.state),
                            search_.what().metric_tag, *trial.best(search_.what().maximize)));
    }
    save();
  }

  // A trial that cannot be asked, as while its host is away, is asked again later, and is no reason
  // to leave the others.
  void ask_to_stop(int number, Running& trial) {
    if (trial.asked_to_stop) return;
    try {
      host_.stop(number);
      trial.asked_to_stop = true;
    } catch (const Error& error) {
      if (std::exchange(trial.told, true)) return;
      log::warning(fmt::format("trial {} cannot be stopped now: {}", number, error.message()));
    }
  }

  // Trials that have not ended are begun anew by a search that continues.
  void stop_all() {
    for (auto& [number, trial] : running_) ask_to_stop(number, trial);
    const TimePoint deadline = clock_.now() + options_.stop_time;
    for (auto& [number, trial] : running_) {
      while (!host_.exit_code(number) && clock_.now() < deadline) {
        clock_.sleep_for(options_.poll_time);
        ask_to_stop(number, trial);
      }
    }
  }

  const JobSpec& job_;
  TrialHost& host_;
  FileSystem& files_;
  Clock& clock_;
  const SearchOptions& options_;
  Search search_;
  std::map<int, Running> running_;
};

}  // namespace

JobSpec trial_job(const JobSpec& job, const Trial& trial) {
  JobSpec one = job;
  const std::string number = fmt::format("{}", trial.number);
  one.search.reset();
  one.trial = number;
  if (!job.name.empty()) one.name = job.name + "-" + number;
  one.job_dir = join_path(job.job_dir, number);
  for (const auto& [name, value] : trial.values)
    one.args.push_back(fmt::format("--{}={}", name, value));
  const auto set = [](Pool& pool, const char* name, const std::string& value) {
    const bool there =
        std::ranges::any_of(pool.environment, [&](const auto& one) { return one.first == name; });
    if (!there) pool.environment.emplace_back(name, value);
  };
  // Tasks may have another working directory. In a bucket the file could not be written.
  const auto folder = local_path(one.job_dir);
  const std::string report =
      folder.ok() ? join_path(std::filesystem::absolute(folder.value()).string(), kReportFile)
                  : "/dev/null";
  for (Pool& pool : one.pools) {
    set(pool, "CLOUD_ML_TRIAL_ID", number);
    if (job.search) set(pool, "CLOUD_ML_HP_METRIC_TAG", job.search->metric_tag);
    set(pool, "CLOUD_ML_HP_METRIC_FILE", report);
    if (pool.args.empty()) continue;
    for (const auto& [name, value] : trial.values)
      pool.args.push_back(fmt::format("--{}={}", name, value));
  }
  return one;
}

Search known_search(const JobSpec& job, FileSystem& files, uint64_t seed) {
  if (!job.search) {
    throw invalid_argument("the job has no search", "give its configuration 'hyperparameters'");
  }
  if (job.job_dir.empty()) {
    throw invalid_argument("the search has no folder", "give one: --job-dir=DIR");
  }
  Search search(*job.search, seed);
  const std::string path = join_path(job.job_dir, kSearchFile);
  const Result<std::string> saved = files.read_file(path);
  if (!saved.ok() && saved.error().kind() == ErrorKind::kNotFound) return search;
  const Result<nlohmann::json> parsed = parse_json(saved.value(), path);
  if (!parsed.ok()) throw invalid_argument(parsed.error().message(), kNewFolder);
  const nlohmann::json& json = parsed.value();
  const Commands then = saved_commands(json, path), now = commands_of(job);
  if (then == now && search.differences(json, path).empty()) {
    search.restore(json, path);
    return search;
  }
  if (const SavedTrials before = saved_trials(json, path); !before.have_measured)
    return Search(*job.search, seed, before.next);
  search.restore(json, path);  // throws if it is another search
  throw invalid_argument(
      fmt::format("the folder {} holds a search that runs {}, and this one runs {}", job.job_dir,
                  quoted(then), quoted(now)),
      began_with(differences(then, now)));
}

Search run_search(const JobSpec& job, TrialHost& host, FileSystem& files, Clock& clock,
                  const SearchOptions& options) {
  if (job.search) {
    const bool maximize = job.search->maximize;
    warn_of_direction(maximize ? "goal: MAXIMIZE" : "goal: MINIMIZE", job.search->metric_tag,
                      maximize ? Better::kHigher : Better::kLower);
  }
  return SearchRun(job, host, files, clock, options).run();
}

}  // namespace muster::inline v0_1::jobs
