#include "muster/base/better.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "muster/base/log.h"
#include "muster/base/strings.h"

namespace muster::inline v0_1 {
namespace {

// Words of a name. "score" is none of them: a Brier score is better when it is lower.
constexpr std::array<std::string_view, 24> kHigherWords{
    "acc",  "accuracy",  "accuracies", "ap",     "auc",   "auprc", "auroc",       "bleu",
    "dice", "f1",        "f2",         "fbeta",  "iou",   "map",   "miou",        "ndcg",
    "ppv",  "precision", "r2",         "recall", "rouge", "psnr",  "sensitivity", "ssim"};
constexpr std::array<std::string_view, 4> kHigherToo{"similarity", "specificity", "throughput",
                                                     "reward"};
constexpr std::array<std::string_view, 24> kLowerWords{
    "ce",    "crossentropy", "cost",    "deviation", "divergence", "entropy", "error", "errors",
    "hinge", "latency",      "logcosh", "logloss",   "loss",       "losses",  "mae",   "mape",
    "mse",   "msle",         "nll",     "penalty",   "perplexity", "poisson", "rmse",  "rmsle"};

bool is_in(const auto& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

}  // namespace

Better better_by_name(std::string_view name) {
  std::string words = to_lower(name);
  // Names that only have a meaning as several words together.
  for (const std::string_view lower : {"false_positives", "false_negatives", "log_cosh", "brier"}) {
    if (words.find(lower) != std::string::npos) return Better::kLower;
  }
  for (const std::string_view higher :
       {"true_positives", "true_negatives", "f_beta", "top_k", "io_u"}) {
    if (words.find(higher) != std::string::npos) return Better::kHigher;
  }
  // A score of a constant prediction says nothing about the model.
  if (words.find("baseline") != std::string::npos) return Better::kUnknown;
  std::ranges::replace_if(
      words, [](char c) { return c == '/' || c == '-' || c == '.' || c == ' ' || c == ':'; }, '_');
  bool higher = false, lower = false;
  for (const std::string& word : split(words, '_')) {
    higher = higher || is_in(kHigherWords, word) || is_in(kHigherToo, word);
    lower = lower || is_in(kLowerWords, word);
  }
  if (higher == lower) return Better::kUnknown;
  return higher ? Better::kHigher : Better::kLower;
}

void warn_of_direction(std::string_view whose, std::string_view name, Better asked) {
  const Better known = better_by_name(name);
  if (known == Better::kUnknown || known == asked) return;
  log::warning_once(
      fmt::format("{} treats {} values of \"{}\" as better, but its name suggests that {} ones are",
                  whose, asked == Better::kHigher ? "higher" : "lower", name,
                  known == Better::kHigher ? "higher" : "lower"));
}

}  // namespace muster::inline v0_1
