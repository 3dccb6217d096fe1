#include "muster/applications/generate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "muster/base/error.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::applications {
namespace {

void check_sampling(const SampleOptions& options) {
  if (!(options.temperature >= 0) || !std::isfinite(options.temperature)) {
    throw invalid_argument(fmt::format("sample: temperature is {}", options.temperature),
                           "temperature must be finite and at least 0");
  }
  if (options.top_k < 0) {
    throw invalid_argument(fmt::format("sample: top_k is {}", options.top_k),
                           "top_k must be at least 0, which is all");
  }
  if (!(options.top_p > 0 && options.top_p <= 1)) {
    throw invalid_argument(fmt::format("sample: top_p is {}", options.top_p),
                           "top_p must be above 0, and 1 at most");
  }
}

// Chooses a place among `logits`.
class Sampler {
 public:
  Sampler(const SampleOptions& options, size_t vocabulary)
      : options_(options), order_(vocabulary) {}

  int64_t operator()(const double* logits, int64_t row, RandomKey key) {
    const auto count = static_cast<int64_t>(order_.size());
    const int64_t best = std::max_element(logits, logits + count) - logits;
    if (std::any_of(logits, logits + count, [](double logit) { return std::isnan(logit); }) ||
        !(logits[best] > -std::numeric_limits<double>::infinity())) {
      throw invalid_argument(
          fmt::format("sample: the logits of row {} are NaN somewhere, or all -infinity", row));
    }
    if (options_.temperature == 0) return best;
    // The likeliest come first, equals in their order.
    std::iota(order_.begin(), order_.end(), 0);
    const bool all = options_.top_p == 1 && (options_.top_k == 0 || options_.top_k >= count);
    if (!all) {
      std::stable_sort(order_.begin(), order_.end(),
                       [&](int64_t a, int64_t b) { return logits[a] > logits[b]; });
      if (options_.top_k > 0 && options_.top_k < count)
        order_.resize(static_cast<size_t>(options_.top_k));
    }
    weights_.clear();
    for (const int64_t place : order_)
      weights_.push_back(std::exp((logits[place] - logits[best]) / options_.temperature));
    double sum = std::accumulate(weights_.begin(), weights_.end(), 0.0);
    size_t kept = weights_.size();
    if (options_.top_p < 1) {
      const double enough = options_.top_p * sum;
      for (kept = 0, sum = 0; sum < enough && kept < weights_.size(); ++kept) sum += weights_[kept];
    }
    double left = Random(key).uniform() * sum;
    size_t chosen = 0;
    while (chosen + 1 < kept && left >= weights_[chosen]) left -= weights_[chosen++];
    const int64_t place = order_[chosen];
    order_.resize(static_cast<size_t>(count));
    return place;
  }

 private:
  SampleOptions options_;
  std::vector<int64_t> order_;
  std::vector<double> weights_;
};

Tensor last_logits(const LogitsFn& model, const Tensor& tokens, int64_t context) {
  const int64_t time = tokens.size(1);
  const int64_t seen = context > 0 ? std::min(context, time) : time;
  const Tensor given = tokens.narrow(1, time - seen, seen);
  const Tensor logits = model(given);
  if (!logits.defined() || logits.dim() != 3 || logits.size(0) != given.size(0) ||
      logits.size(1) != seen) {
    throw invalid_argument(
        fmt::format("generate: for the tokens {} the model gave {}", describe(given),
                    logits.defined() ? describe(logits) : "an undefined tensor"),
        "it must give logits [batch, time, vocabulary]");
  }
  return logits.select(1, seen - 1);
}

}  // namespace

Tensor sample(const Tensor& logits, const SampleOptions& options, RandomKey key) {
  check_sampling(options);
  if (logits.dim() != 2 || !logits.is_floating_point() || logits.size(1) < 1) {
    throw invalid_argument(
        fmt::format("sample: expected logits [batch, vocabulary], was given {}", describe(logits)));
  }
  const Tensor numbers = logits.detach().to(at::kCPU, at::kDouble).contiguous();
  const int64_t batch = numbers.size(0), vocabulary = numbers.size(1);
  Tensor chosen = at::empty({batch}, at::kLong);
  Sampler sampler(options, static_cast<size_t>(vocabulary));
  for (int64_t row = 0; row < batch; ++row) {
    chosen.data_ptr<int64_t>()[row] = sampler(numbers.data_ptr<double>() + row * vocabulary, row,
                                              key.derive(static_cast<uint64_t>(row)));
  }
  return chosen.to(logits.device());
}

Tensor generate(const LogitsFn& logits, const Tensor& prompt, const GenerateOptions& options) {
  const SampleOptions sampling{options.temperature, options.top_k, options.top_p};
  check_sampling(sampling);
  if (options.max_new_tokens < 0 || options.context < 0) {
    throw invalid_argument(fmt::format("generate: max_new_tokens is {}, and context {}",
                                       options.max_new_tokens, options.context),
                           "both must be at least 0");
  }
  if (prompt.dim() != 2 || prompt.scalar_type() != kInt64 || prompt.size(1) < 1) {
    throw invalid_argument(
        fmt::format("generate: the prompt is {}", describe(prompt)),
        "it is int64 [batch, time], of one token at least: a model says what follows something");
  }
  const at::NoGradGuard no_grad;
  const RandomKey key = derive_key(options.seed, {id_of("generate")});
  Tensor tokens = prompt;
  Tensor stopped = at::zeros({prompt.size(0)}, prompt.options().dtype(at::kBool));
  for (int64_t step = 0; step < options.max_new_tokens; ++step) {
    Tensor next = sample(last_logits(logits, tokens, options.context), sampling,
                         key.derive(static_cast<uint64_t>(step)))
                      .to(prompt.device());
    if (options.stop) {
      next = next.masked_fill(stopped, *options.stop);
      stopped = stopped.logical_or(next.eq(*options.stop));
    }
    tokens = at::cat({tokens, next.unsqueeze(1)}, 1);
    if (options.stop && stopped.all().item<bool>()) break;
  }
  return tokens;
}

std::vector<int64_t> generate(const LogitsFn& logits, const std::vector<int64_t>& prompt,
                              const GenerateOptions& options) {
  const Tensor row = at::tensor(prompt, at::kLong).unsqueeze(0);
  const Tensor tokens = generate(logits, row, options).squeeze(0).contiguous();
  const int64_t* first = tokens.data_ptr<int64_t>();
  return {first, first + tokens.numel()};
}

}  // namespace muster::inline v0_1::applications
