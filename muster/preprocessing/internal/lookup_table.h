// The common part of StringLookup and IntegerLookup: a vocabulary, and the numbers of its tokens.
// Thread safety: a LookupTable is immutable; a TokenCounter belongs to one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "muster/preprocessing/output_mode.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::internal {

// The form in which a token is compared.
template <typename Token>
using TokenView = std::conditional_t<std::is_same_v<Token, std::string>, std::string_view, Token>;

// The options but the vocabulary.
template <typename Token>
struct LookupRules {
  const char* layer{};
  int64_t max_tokens{};
  int64_t num_oov_indices{};
  std::optional<Token> mask_token{};
  Token oov_token{};
  bool invert{};
  OutputMode output_mode{};
  bool pad_to_max_tokens{};

  // Throws InvalidArgument for options out of range.
  void check() const;
  // The number of the first token that is unknown, and of the first one of the vocabulary.
  int64_t oov_start() const { return mask_token && output_mode == OutputMode::kInt ? 1 : 0; }
  int64_t token_start() const { return oov_start() + num_oov_indices; }
};

template <typename Token>
class LookupTable {
 public:
  // The vocabulary may begin with the special tokens. Throws InvalidArgument for one that is empty,
  // repeats a token, holds a special one, or has more tokens than allowed; and for another number
  // of weights, or weights without kTfIdf.
  LookupTable(LookupRules<Token> rules, std::vector<Token> vocabulary,
              std::vector<double> idf_weights);
  LookupTable(const LookupTable&) = delete;  // the numbers point into the tokens
  LookupTable& operator=(const LookupTable&) = delete;

  // Returns -1 for a token that does not count. Throws InvalidArgument for an unknown token if
  // there is no number for it.
  int64_t number_of(TokenView<Token> token) const;
  // The way back. Other numbers are unknown tokens.
  const Token& token_of(int64_t number) const;
  // Encodes numbers as the rules say.
  Tensor encoded(const Tensor& numbers) const;

  // With the special tokens, token i has number i.
  std::vector<Token> vocabulary(bool include_special_tokens) const;
  int64_t size() const { return rules_.token_start() + static_cast<int64_t>(tokens_.size()); }
  const LookupRules<Token>& rules() const { return rules_; }
  // Throws InvalidArgument unless the rules are for this way.
  void check_way(bool invert) const;

 private:
  void drop_special_tokens();
  void check_tokens();
  void set_weights(const std::vector<double>& given);
  std::vector<Token> special_tokens() const;

  LookupRules<Token> rules_;
  std::vector<Token> tokens_;  // of the vocabulary, without the special ones
  bool had_special_tokens_ = false;
  std::unordered_map<TokenView<Token>, int64_t> numbers_;
  Tensor weights_;  // float32 [depth], for kTfIdf
};

// Counts tokens, and in how many documents each is.
template <typename Token>
class TokenCounter {
 public:
  // Begins a document.
  void begin_document() { ++documents_; }
  void add(TokenView<Token> token);

  // The most frequent tokens, as many as the rules allow; of equal counts the last in the order of
  // bytes, or the largest, comes first. Special tokens are left out. REQUIRES: one was added.
  std::vector<Token> vocabulary(const LookupRules<Token>& rules) const;
  // Their weights, log(1 + documents / (1 + documents with the token)).
  std::vector<double> idf_weights(const std::vector<Token>& vocabulary) const;
  bool empty() const { return counts_.empty(); }

 private:
  struct Count {
    int64_t all = 0;
    int64_t documents = 0;
    int64_t last_document = 0;
  };
  struct Hash {
    using is_transparent = void;
    size_t operator()(const TokenView<Token>& token) const {
      return std::hash<TokenView<Token>>()(token);
    }
  };

  int64_t documents_ = 0;
  std::unordered_map<Token, Count, Hash, std::equal_to<>> counts_;
};

}  // namespace muster::inline v0_1::internal
