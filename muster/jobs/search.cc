#include "muster/jobs/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/strings.h"

namespace muster::inline v0_1::jobs {
namespace {

// A third continues. The median of fewer curves says little.
constexpr size_t kReduction = 3;
constexpr size_t kLeastCurves = 3;
constexpr int kDraws = 100;
// The exit code that a program returns for a wrong argument. This many equal failures are no
// accident.
constexpr int kWrongArguments = 2;
constexpr size_t kAlike = 3;

constexpr std::array<std::string_view, 5> kStates = {"running", "done", "stopped early", "failed",
                                                     "interrupted"};

TrialState state_named(const std::string& name, const std::string& path) {
  const auto it = std::find(kStates.begin(), kStates.end(), name);
  if (it == kStates.end())
    throw invalid_argument(fmt::format("a trial in {} is '{}'", path, name), kNewFolder);
  return static_cast<TrialState>(it - kStates.begin());
}

bool counts(const Trial& trial) {
  return trial.state == TrialState::kDone || trial.state == TrialState::kStopped;
}

// The settings that must not change when a search continues; more trials may be requested.
nlohmann::json identity(const HyperParameterSearch& search) {
  nlohmann::json parameters = nlohmann::json::array();
  for (const HyperParameter& one : search.parameters) {
    parameters.push_back({{"name", one.name},
                          {"type", static_cast<int>(one.type)},
                          {"range", {one.min_value, one.max_value}},
                          {"categories", one.categories},
                          {"values", one.values},
                          {"scale", static_cast<int>(one.scale)}});
  }
  return {{"maximize", search.maximize},
          {"metric", search.metric_tag},
          {"algorithm", static_cast<int>(search.algorithm)},
          {"parameters", parameters}};
}

// Reads the saved search in the file by `read`, and throws InvalidArgument if it is none.
template <typename Read>
void read_saved(const std::string& path, const Read& read) {
  try {
    read();
  } catch (const nlohmann::json::exception& error) {
    throw invalid_argument(fmt::format("the search in {} is damaged: {}", path, error.what()),
                           kNewFolder);
  }
}

// The number of the first trial; searches of old began with 1.
int first_of(const nlohmann::json& saved) { return saved.value("first", 1); }

// The best of the first `count` measurements.
double best_of_first(const Trial& trial, size_t count, bool maximize) {
  double best =
      maximize ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
  for (const auto& [step, value] : trial.measurements) {
    if (count-- == 0) break;
    best = maximize ? std::max(best, value) : std::min(best, value);
  }
  return best;
}

}  // namespace

std::string_view to_string(TrialState state) { return kStates[static_cast<size_t>(state)]; }

std::optional<double> Trial::best(bool maximize) const {
  if (measurements.empty()) return std::nullopt;
  return best_of_first(*this, measurements.size(), maximize);
}

Search::Search(HyperParameterSearch what, uint64_t seed, int first)
    : what_(std::move(what)), seed_(seed), first_(first) {
  check_search(what_);
  if (what_.max_trials < 1 || what_.max_parallel_trials < 1) {
    throw invalid_argument(fmt::format("the search asks for {} trials, {} at a time",
                                       what_.max_trials, what_.max_parallel_trials),
                           "give maxTrials and maxParallelTrials of at least 1");
  }
}

int64_t Search::planned() const {
  const int64_t points = count_points(what_);
  return points == 0 ? what_.max_trials : std::min<int64_t>(points, what_.max_trials);
}

// The values of the trial in that place, counted from 1.
std::optional<TrialValues> Search::values_at(int place) const {
  if (what_.algorithm == HyperParameterSearch::Algorithm::kGrid)
    return grid_point(what_, place - 1);
  const RandomKey key =
      derive_key(seed_, {id_of("hyper-parameters"), static_cast<uint64_t>(place)});
  const auto known = [&](const TrialValues& values) {
    return std::any_of(trials_.begin(), trials_.end(),
                       [&](const Trial& trial) { return trial.values == values; });
  };
  TrialValues values;
  for (uint64_t draw = 0; draw < kDraws; ++draw) {
    values = draw_values(what_, key.derive(draw));
    if (!known(values)) return values;
  }
  // Few values are left: the first of the grid that no trial had.
  for (int64_t point = 0; point < count_points(what_); ++point) {
    values = grid_point(what_, point);
    if (!known(values)) return values;
  }
  return std::nullopt;
}

std::optional<Trial> Search::begin_next() {
  if (running() >= what_.max_parallel_trials || !gave_up().empty()) return std::nullopt;
  for (Trial& trial : trials_) {
    if (trial.state != TrialState::kInterrupted) continue;
    trial.state = TrialState::kRunning;
    return trial;
  }
  const int place = static_cast<int>(trials_.size()) + 1;
  if (place > planned()) return std::nullopt;
  std::optional<TrialValues> values = values_at(place);
  if (!values) return std::nullopt;
  trials_.push_back({.number = next(), .values = *std::move(values)});
  return trials_.back();
}

const Trial& Search::trial(int number) const {
  if (number < first_ || number >= next()) {
    throw invalid_argument(fmt::format("there is no trial {}", number),
                           fmt::format("trials are {} to {}", first_, next() - 1));
  }
  return trials_[static_cast<size_t>(number - first_)];
}

Trial& Search::running_trial(int number) {
  if (trial(number).state != TrialState::kRunning) {
    throw internal_error(
        fmt::format("trial {} is {} and does not run", number, to_string(trial(number).state)));
  }
  return trials_[static_cast<size_t>(number - first_)];
}

void Search::measure(int number, const std::map<int64_t, double>& measurements) {
  Trial& trial = running_trial(number);
  trial.measurements = measurements;
  std::erase_if(trial.measurements, [](const auto& one) { return !std::isfinite(one.second); });
}

bool Search::should_stop(int number) const {
  const Trial& trial = this->trial(number);
  if (trial.state != TrialState::kRunning || trial.measurements.empty()) return false;
  if (what_.algorithm == HyperParameterSearch::Algorithm::kDefault) return behind_its_rung(trial);
  return what_.early_stopping && behind_the_median(trial);
}

bool Search::behind_its_rung(const Trial& trial) const {
  size_t rung = 1;
  while (rung * kReduction <= trial.measurements.size()) rung *= kReduction;
  const double mine = best_of_first(trial, rung, what_.maximize);
  size_t others = 0, ahead = 0;
  for (const Trial& other : trials_) {
    if (other.state == TrialState::kFailed || other.measurements.size() < rung) continue;
    ++others;
    if (better(best_of_first(other, rung, what_.maximize), mine)) ++ahead;
  }
  const size_t places = (others + kReduction - 1) / kReduction;
  return ahead >= places;
}

bool Search::behind_the_median(const Trial& trial) const {
  const size_t count = trial.measurements.size();
  std::vector<double> means;
  for (const Trial& other : trials_) {
    if (!counts(other) || other.measurements.size() < count) continue;
    double sum = 0;
    auto it = other.measurements.begin();
    for (size_t i = 0; i < count; ++i, ++it) sum += it->second;
    means.push_back(sum / static_cast<double>(count));
  }
  if (means.size() < kLeastCurves) return false;
  // For an even number, the worse of the two in the middle, so that fewer are stopped.
  const auto middle = means.begin() + static_cast<std::ptrdiff_t>(means.size() / 2);
  std::nth_element(means.begin(), middle, means.end(),
                   [&](double a, double b) { return better(a, b); });
  return better(*middle, *trial.best(what_.maximize));
}

void Search::set_log(int number, const std::string& log) { running_trial(number).log = log; }

void Search::finish(int number, TrialState state, const std::string& failure,
                    std::optional<int> exit_code) {
  Trial& trial = running_trial(number);
  trial.state = state;
  trial.failure = failure;
  trial.exit_code = exit_code;
  if (trial.measurements.empty() && state != TrialState::kFailed) {
    trial.state = TrialState::kFailed;
    trial.failure =
        failure.empty() ? fmt::format("it never measured '{}'", what_.metric_tag) : failure;
  }
}

void Search::interrupt() {
  for (Trial& trial : trials_) {
    if (trial.state == TrialState::kRunning) trial.state = TrialState::kInterrupted;
  }
}

void Search::try_again() {
  for (Trial& trial : trials_) {
    if (trial.state != TrialState::kFailed) continue;
    trial = {.number = trial.number, .values = trial.values, .state = TrialState::kInterrupted};
  }
}

int Search::count(TrialState state) const {
  return static_cast<int>(std::ranges::count(trials_, state, &Trial::state));
}

int Search::running() const { return count(TrialState::kRunning); }

int Search::allowed_failures() const {
  if (what_.max_failed_trials > 0) return what_.max_failed_trials;
  return static_cast<int>(std::max<int64_t>(2, planned() / 2));
}

bool Search::has_measured() const {
  return std::ranges::any_of(trials_, [](const Trial& one) { return !one.measurements.empty(); });
}

const Trial* Search::refused() const {
  if (has_measured()) return nullptr;
  const auto it = std::ranges::find_if(trials_, [](const Trial& trial) {
    return trial.state == TrialState::kFailed && trial.exit_code == kWrongArguments;
  });
  return it == trials_.end() ? nullptr : &*it;
}

// The first of the trials when they all fail in one way, so that there is nothing to search;
// nullptr when they do not.
const Trial* Search::failed_alike() const {
  if (what_.max_failed_trials > 0 || trials_.size() < kAlike || has_measured()) return nullptr;
  const bool alike =
      std::all_of(trials_.begin(), trials_.begin() + kAlike, [&](const Trial& trial) {
        return trial.state == TrialState::kFailed && trial.exit_code == trials_.front().exit_code;
      });
  return alike ? &trials_.front() : nullptr;
}

std::string Search::gave_up() const {
  if (const Trial* trial = refused()) {
    return fmt::format(
        "trial {} failed as all would, by a wrong argument or something that was not found: {}",
        trial->number, trial->failure);
  }
  if (const Trial* trial = failed_alike()) {
    return fmt::format("the first {} trials failed in the same way: {}", kAlike, trial->failure);
  }
  const int failures = count(TrialState::kFailed);
  if (failures <= allowed_failures()) return {};
  return fmt::format("{} trials failed, and at most {} may{}", failures, allowed_failures(),
                     what_.max_failed_trials > 0 ? " (maxFailedTrials)" : "");
}

bool Search::done() const {
  if (running() > 0) return false;
  if (!gave_up().empty()) return true;
  return count(TrialState::kInterrupted) == 0 && static_cast<int64_t>(trials_.size()) >= planned();
}

std::vector<const Trial*> Search::ranking() const {
  std::vector<const Trial*> ranked;
  for (const Trial& trial : trials_) ranked.push_back(&trial);
  std::stable_sort(ranked.begin(), ranked.end(), [&](const Trial* a, const Trial* b) {
    const bool a_counts = counts(*a), b_counts = counts(*b);
    if (a_counts != b_counts) return a_counts;
    return a_counts && better(*a->best(what_.maximize), *b->best(what_.maximize));
  });
  return ranked;
}

const Trial* Search::best() const {
  const std::vector<const Trial*> ranked = ranking();
  return ranked.empty() || !counts(*ranked.front()) ? nullptr : ranked.front();
}

nlohmann::json Search::to_json() const {
  nlohmann::json trials = nlohmann::json::array();
  for (const Trial& trial : trials_) {
    nlohmann::json measurements = nlohmann::json::array();
    for (const auto& [step, value] : trial.measurements) measurements.push_back({step, value});
    trials.push_back({{"number", trial.number},
                      {"values", trial.values},
                      {"state", std::string(to_string(trial.state))},
                      {"measurements", measurements},
                      {"failure", trial.failure},
                      {"exit_code", trial.exit_code ? nlohmann::json(*trial.exit_code) : nullptr},
                      {"log", trial.log}});
  }
  return {{"search", identity(what_)}, {"seed", seed_}, {"first", first_}, {"trials", trials}};
}

void Search::runs_on(int number) {
  for (Trial& trial : trials_) {
    if (trial.number == number && trial.state == TrialState::kInterrupted)
      trial.state = TrialState::kRunning;
  }
}

void Search::restore(const nlohmann::json& saved, const std::string& path, TrialState unfinished) {
  if (const std::vector<std::string> others = differences(saved, path); !others.empty()) {
    throw invalid_argument(
        fmt::format("the folder {} holds a search over other hyper-parameters, or with another "
                    "seed",
                    directory_of(path)),
        began_with(others));
  }
  read_saved(path, [&] {
    const int first = first_of(saved);
    std::vector<Trial> trials;
    for (const nlohmann::json& entry : saved.at("trials")) {
      Trial trial{.number = entry.at("number").get<int>(),
                  .values = entry.at("values").get<TrialValues>(),
                  .state = state_named(entry.at("state").get<std::string>(), path),
                  .measurements = {},
                  .failure = entry.at("failure").get<std::string>(),
                  .exit_code = std::nullopt,
                  .log = entry.at("log").get<std::string>()};
      if (const nlohmann::json& code = entry.at("exit_code"); !code.is_null())
        trial.exit_code = code.get<int>();
      if (trial.number != first + static_cast<int>(trials.size())) {
        throw invalid_argument(fmt::format("{} has trial {} in the place of trial {}", path,
                                           trial.number, first + trials.size()),
                               kNewFolder);
      }
      if (trial.state == TrialState::kRunning || trial.state == TrialState::kInterrupted)
        trial.state = unfinished;
      for (const nlohmann::json& measured : entry.at("measurements"))
        trial.measurements[measured.at(0).get<int64_t>()] = measured.at(1).get<double>();
      trials.push_back(std::move(trial));
    }
    first_ = first;
    trials_ = std::move(trials);
  });
}

std::vector<std::string> Search::differences(const nlohmann::json& saved,
                                             const std::string& path) const {
  std::vector<std::string> found;
  read_saved(path, [&] {
    const nlohmann::json& then = saved.at("search");
    const nlohmann::json now = identity(what_);
    if (const auto seed = saved.at("seed").get<uint64_t>(); seed != seed_)
      found.push_back(fmt::format("--seed={}", seed));
    if (then.at("maximize") != now.at("maximize"))
      found.push_back(
          fmt::format("goal: {}", then.at("maximize").get<bool>() ? "MAXIMIZE" : "MINIMIZE"));
    if (then.at("metric") != now.at("metric"))
      found.push_back("hyperparameterMetricTag: " + then.at("metric").get<std::string>());
    if (then.at("algorithm") != now.at("algorithm")) found.emplace_back("another algorithm");
    const auto named = [](const nlohmann::json& parameters, const nlohmann::json& one) {
      return std::ranges::find_if(parameters, [&](const nlohmann::json& other) {
        return other.at("name") == one.at("name");
      });
    };
    const nlohmann::json& before = then.at("parameters");
    const nlohmann::json& after = now.at("parameters");
    for (const nlohmann::json& one : before) {
      const auto same = named(after, one);
      if (same != after.end() && *same == one) continue;
      found.push_back(fmt::format("{} {}",
                                  same == after.end() ? "the parameter" : "another range of",
                                  one.at("name").get<std::string>()));
    }
    for (const nlohmann::json& one : after) {
      if (named(before, one) == before.end())
        found.push_back("no parameter " + one.at("name").get<std::string>());
    }
    if (found.empty() && then != now) found.emplace_back("its parameters in another order");
  });
  return found;
}

std::string began_with(const std::vector<std::string>& differences) {
  return fmt::format("it began with {}: give the same again, or another --job-dir",
                     join(differences, ", and "));
}

SavedTrials saved_trials(const nlohmann::json& saved, const std::string& path) {
  SavedTrials trials;
  read_saved(path, [&] {
    trials.next = first_of(saved) + static_cast<int>(saved.at("trials").size());
    for (const nlohmann::json& trial : saved.at("trials"))
      trials.have_measured = trials.have_measured || !trial.at("measurements").empty();
  });
  return trials;
}

}  // namespace muster::inline v0_1::jobs
