#include "muster/estimator/best_checkpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "muster/base/better.h"
#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/log.h"
#include "muster/base/outside_name.h"
#include "muster/checkpoint/checkpoint.h"
#include "muster/estimator/internal/best_list.h"

namespace muster::inline v0_1 {
namespace {

using nlohmann::json;

// The content of the file.
struct Kept {
  KeepBest policy;
  std::vector<BestCheckpoint> best{};
};

std::string path_in(const std::string& model_dir) {
  return join_path(model_dir, "best_checkpoints.json");
}

// Nothing when there is no such file; checkpoints that are gone are left out.
std::optional<Kept> read_kept(const std::string& model_dir, FileSystem& fs) {
  const std::string path = path_in(model_dir);
  const Result<std::string> text = fs.read_file(path);
  if (!text.ok() && text.error().kind() == ErrorKind::kNotFound) return std::nullopt;
  const json file = parse_json(text.value(), path, ErrorKind::kCorrupt).value();
  Kept kept;
  try {
    kept.policy = {.count = file.at("count").get<int64_t>(),
                   .metric = file.at("metric").get<std::string>(),
                   .higher_is_better = file.at("higher_is_better").get<bool>(),
                   .evaluation = file.at("evaluation").get<std::string>()};
    for (const json& one : file.at("best")) {
      kept.best.push_back(
          {.prefix = path_inside(model_dir, one.at("checkpoint").get<std::string>(), path).value(),
           .global_step = one.at("global_step").get<int64_t>(),
           .value = one.at("value").get<double>()});
    }
  } catch (const json::exception& error) {
    throw Error(ErrorKind::kCorrupt, fmt::format("{} is damaged: {}", path, error.what()),
                "remove the file: the next run begins a new list");
  }
  std::erase_if(kept.best, [&](const BestCheckpoint& one) {
    return !fs.exists(checkpoint_file(one.prefix)).value();
  });
  return kept;
}

bool same_but_for_count(KeepBest a, KeepBest b) {
  a.count = b.count;
  a.higher_is_better = a.higher();
  b.higher_is_better = b.higher();
  return a == b;
}

}  // namespace

bool KeepBest::higher() const {
  if (higher_is_better) return *higher_is_better;
  const Better better = better_by_name(metric);
  if (better != Better::kUnknown) return better == Better::kHigher;
  throw invalid_argument(fmt::format("RunConfig.keep_best.metric is \"{}\"; its name does not show "
                                     "whether higher or lower values are better",
                                     metric),
                         "set .higher_is_better = true or false");
}

std::vector<BestCheckpoint> best_checkpoints(const std::string& model_dir, FileSystem& fs) {
  std::optional<Kept> kept = read_kept(model_dir, fs);
  return kept ? std::move(kept->best) : std::vector<BestCheckpoint>();
}

namespace internal {

BestList::BestList(std::string model_dir, KeepBest policy, FileSystem& fs)
    : model_dir_(std::move(model_dir)), policy_(std::move(policy)), fs_(fs) {
  std::optional<Kept> kept = read_kept(model_dir_, fs_);
  if (!kept) return;
  if (!same_but_for_count(kept->policy, policy_)) {
    log::warning(fmt::format(
        "the best checkpoints so far were ranked by \"{}\" (evaluation \"{}\"); a new list begins, "
        "ranked by \"{}\" (evaluation \"{}\")",
        kept->policy.metric, kept->policy.evaluation, policy_.metric, policy_.evaluation));
    return;
  }
  take(std::move(kept->best));
}

void BestList::take(std::vector<BestCheckpoint> best) {
  best_ = std::move(best);
  if (std::ssize(best_) > policy_.count) best_.resize(static_cast<size_t>(policy_.count));
}

// Another task may have written since.
void BestList::read() {
  std::optional<Kept> kept = read_kept(model_dir_, fs_);
  if (kept && same_but_for_count(kept->policy, policy_)) take(std::move(kept->best));
}

void BestList::note(const std::string& evaluation, const std::string& prefix,
                    const EvalResult& result) {
  if (evaluation != policy_.evaluation || prefix.empty()) return;
  const std::lock_guard lock(mutex_);
  const auto found = result.find(policy_.metric);
  if (found == result.end()) {
    std::string names;
    for (const auto& [name, value] : result) names += (names.empty() ? "" : ", ") + name;
    throw invalid_argument(
        fmt::format("RunConfig.keep_best.metric is \"{}\", which the evaluation \"{}\" does not "
                    "measure",
                    policy_.metric, evaluation),
        "it measures: " + names);
  }
  read();
  std::erase_if(best_, [&](const BestCheckpoint& one) { return one.prefix == prefix; });
  const double value = found->second;
  const auto better = [&](const BestCheckpoint& other) {
    return policy_.higher() ? value > other.value : value < other.value;
  };
  if (std::isfinite(value)) {
    const auto step = static_cast<int64_t>(result.at("global_step"));
    best_.insert(std::ranges::find_if(best_, better), {prefix, step, value});
  }
  take(std::move(best_));
  write();
}

bool BestList::holds(const std::string& prefix) {
  const std::lock_guard lock(mutex_);
  read();
  return std::ranges::any_of(best_, [&](const auto& one) { return one.prefix == prefix; });
}

void BestList::write() const {
  json best = json::array();
  for (const BestCheckpoint& one : best_) {
    best.push_back({{"checkpoint", base_name(one.prefix)},
                    {"global_step", one.global_step},
                    {"value", one.value}});
  }
  const json file = {{"count", policy_.count},
                     {"metric", policy_.metric},
                     {"higher_is_better", policy_.higher()},
                     {"evaluation", policy_.evaluation},
                     {"best", std::move(best)}};
  const Status written = fs_.write_atomically(path_in(model_dir_), file.dump(2) + "\n");
  if (!written.ok()) throw written.error();
}

}  // namespace internal
}  // namespace muster::inline v0_1
