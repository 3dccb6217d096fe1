#include "muster/preprocessing/internal/lookup_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/hash.h"
#include "muster/base/printable.h"
#include "muster/preprocessing/internal/checks.h"
#include "muster/preprocessing/internal/encode.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::internal {
namespace {

std::string shown(std::string_view token) { return fmt::format("\"{}\"", printable(token)); }
std::string shown(int64_t token) { return std::to_string(token); }

// Among several numbers for unknown tokens, which one: TensorFlow's choice.
int64_t oov_bucket(std::string_view token, int64_t buckets) {
  return static_cast<int64_t>(fingerprint64(token) % static_cast<uint64_t>(buckets));
}
int64_t oov_bucket(int64_t token, int64_t buckets) { return (token % buckets + buckets) % buckets; }

}  // namespace

template <typename Token>
void LookupRules<Token>::check() const {
  if (max_tokens != 0 && max_tokens < 2) {
    throw invalid_argument(fmt::format("{}: max_tokens is {}", layer, max_tokens),
                           "max_tokens must be at least 2, or 0 for no limit");
  }
  check_at_least(layer, "num_oov_indices", num_oov_indices, 0);
  check_output_mode(layer, output_mode,
                    {OutputMode::kInt, OutputMode::kOneHot, OutputMode::kMultiHot,
                     OutputMode::kCount, OutputMode::kTfIdf});
  if (invert && output_mode != OutputMode::kInt) {
    throw invalid_argument(
        fmt::format("{}: invert is true, and output_mode is {}", layer, name_of(output_mode)),
        "only kInt has a way back");
  }
  if (pad_to_max_tokens && max_tokens == 0) {
    throw invalid_argument(fmt::format("{}: pad_to_max_tokens is true, and max_tokens is 0", layer),
                           "say how many tokens there may be");
  }
  if (max_tokens != 0 && max_tokens <= token_start()) {
    throw invalid_argument(
        fmt::format("{}: max_tokens is {}, and {} numbers are for other than the vocabulary", layer,
                    max_tokens, token_start()),
        "raise max_tokens");
  }
}

template <typename Token>
LookupTable<Token>::LookupTable(LookupRules<Token> rules, std::vector<Token> vocabulary,
                                std::vector<double> idf_weights)
    : rules_(std::move(rules)), tokens_(std::move(vocabulary)) {
  drop_special_tokens();
  if (tokens_.empty()) {
    throw invalid_argument(fmt::format("{}: the vocabulary has no tokens", rules_.layer),
                           "give at least one besides the special ones");
  }
  check_tokens();
  set_weights(idf_weights);
}

template <typename Token>
std::vector<Token> LookupTable<Token>::special_tokens() const {
  std::vector<Token> special;
  if (rules_.oov_start() == 1) special.push_back(*rules_.mask_token);
  special.insert(special.end(), static_cast<size_t>(rules_.num_oov_indices), rules_.oov_token);
  return special;
}

template <typename Token>
void LookupTable<Token>::drop_special_tokens() {
  const std::vector<Token> special = special_tokens();
  had_special_tokens_ = !special.empty() && tokens_.size() >= special.size() &&
                        std::equal(special.begin(), special.end(), tokens_.begin());
  if (!had_special_tokens_) return;
  tokens_.erase(tokens_.begin(), tokens_.begin() + static_cast<ptrdiff_t>(special.size()));
}

template <typename Token>
void LookupTable<Token>::check_tokens() {
  const auto refuse = [&](const Token& token, const char* why, const char* hint) {
    throw invalid_argument(
        fmt::format("{}: the vocabulary has {}{}", rules_.layer, shown(token), why), hint);
  };
  const int64_t start = rules_.token_start();
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const Token& token = tokens_[i];
    if (!numbers_.emplace(token, start + static_cast<int64_t>(i)).second)
      refuse(token, " twice", "name each token once");
    if (rules_.mask_token && token == *rules_.mask_token)
      refuse(token, ", which is the mask token", "leave it out, or choose another mask_token");
    if (token == rules_.oov_token)
      refuse(token, ", which means unknown tokens", "leave it out, or choose another oov_token");
  }
  if (rules_.max_tokens != 0 && size() > rules_.max_tokens) {
    throw invalid_argument(
        fmt::format("{}: {} tokens, of which {} are special, and max_tokens is {}", rules_.layer,
                    size(), start, rules_.max_tokens),
        "give fewer, or raise max_tokens");
  }
}

template <typename Token>
void LookupTable<Token>::set_weights(const std::vector<double>& given) {
  const bool wanted = rules_.output_mode == OutputMode::kTfIdf;
  const size_t tokens = tokens_.size() + (had_special_tokens_ ? special_tokens().size() : 0);
  if (given.size() != (wanted ? tokens : 0)) {
    throw invalid_argument(
        fmt::format("{}: {} idf_weights for {} tokens, and output_mode is {}", rules_.layer,
                    given.size(), tokens, name_of(rules_.output_mode)),
        "kTfIdf needs one for each token of the vocabulary, other modes none");
  }
  if (!wanted) return;
  std::vector<double> weights = given;
  if (!had_special_tokens_) {
    // An unknown token weighs as much as a token on average.
    const double mean = std::accumulate(given.begin(), given.end(), 0.0) /
                        static_cast<double>(std::max<size_t>(given.size(), 1));
    weights.insert(weights.begin(), static_cast<size_t>(rules_.token_start()), mean);
  }
  if (rules_.pad_to_max_tokens) weights.resize(static_cast<size_t>(rules_.max_tokens), 0);
  weights_ = torch::tensor(weights, kFloat64).to(kFloat32);
}

template <typename Token>
int64_t LookupTable<Token>::number_of(TokenView<Token> token) const {
  if (rules_.mask_token && token == *rules_.mask_token) return rules_.oov_start() - 1;
  const auto found = numbers_.find(token);
  if (found != numbers_.end()) return found->second;
  if (rules_.num_oov_indices == 0) {
    throw invalid_argument(fmt::format("{}: {} is not in the vocabulary, and num_oov_indices is 0",
                                       rules_.layer, shown(token)),
                           "with num_oov_indices = 1 unknown tokens have a number");
  }
  return rules_.oov_start() + oov_bucket(token, rules_.num_oov_indices);
}

template <typename Token>
const Token& LookupTable<Token>::token_of(int64_t number) const {
  if (number == 0 && rules_.mask_token) return *rules_.mask_token;
  const int64_t place = number - rules_.token_start();
  if (place < 0 || place >= static_cast<int64_t>(tokens_.size())) return rules_.oov_token;
  return tokens_[static_cast<size_t>(place)];
}

template <typename Token>
Tensor LookupTable<Token>::encoded(const Tensor& numbers) const {
  const Tensor result =
      encode(numbers, rules_.output_mode, rules_.pad_to_max_tokens ? rules_.max_tokens : size());
  return weights_.defined() ? result * weights_.to(result.device()) : result;
}

template <typename Token>
std::vector<Token> LookupTable<Token>::vocabulary(bool include_special_tokens) const {
  std::vector<Token> all;
  if (include_special_tokens) all = special_tokens();
  all.insert(all.end(), tokens_.begin(), tokens_.end());
  return all;
}

template <typename Token>
void LookupTable<Token>::check_way(bool invert) const {
  if (rules_.invert == invert) return;
  throw invalid_argument(fmt::format("{}: invert is {}, and it was called with {}", rules_.layer,
                                     rules_.invert, invert ? "numbers" : "tokens"),
                         fmt::format("make one with .invert = {}", invert));
}

template <typename Token>
void TokenCounter<Token>::add(TokenView<Token> token) {
  auto found = counts_.find(token);
  if (found == counts_.end()) found = counts_.emplace(Token(token), Count()).first;
  Count& count = found->second;
  ++count.all;
  if (count.last_document != documents_) ++count.documents;
  count.last_document = documents_;
}

template <typename Token>
std::vector<Token> TokenCounter<Token>::vocabulary(const LookupRules<Token>& rules) const {
  std::vector<std::pair<int64_t, Token>> counted;
  for (const auto& [token, count] : counts_) {
    if (token == rules.oov_token || (rules.mask_token && token == *rules.mask_token)) continue;
    counted.emplace_back(count.all, token);
  }
  std::sort(counted.begin(), counted.end(), std::greater<>());
  if (rules.max_tokens != 0) {
    const auto room = static_cast<size_t>(rules.max_tokens - rules.token_start());
    if (counted.size() > room) counted.resize(room);
  }
  std::vector<Token> tokens;
  for (auto& [count, token] : counted) tokens.push_back(std::move(token));
  return tokens;
}

template <typename Token>
std::vector<double> TokenCounter<Token>::idf_weights(const std::vector<Token>& vocabulary) const {
  std::vector<double> weights;
  for (const Token& token : vocabulary) {
    const auto documents = static_cast<double>(counts_.find(token)->second.documents);
    weights.push_back(std::log(1 + static_cast<double>(documents_) / (1 + documents)));
  }
  return weights;
}

template struct LookupRules<std::string>;
template struct LookupRules<int64_t>;
template class LookupTable<std::string>;
template class LookupTable<int64_t>;
template class TokenCounter<std::string>;
template class TokenCounter<int64_t>;

}  // namespace muster::inline v0_1::internal
