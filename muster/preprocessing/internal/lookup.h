// StringLookup and IntegerLookup are made alike of their options. Thread safety: pure functions.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/printable.h"
#include "muster/base/strings.h"
#include "muster/files/file_systems.h"
#include "muster/formats/vocabulary_file.h"
#include "muster/preprocessing/internal/lookup_table.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::internal {

template <typename Options>
using TokenOf = typename decltype(Options::vocabulary)::value_type;

template <typename Options>
LookupRules<TokenOf<Options>> rules_of(const char* layer, const Options& options) {
  return {layer,
          options.max_tokens,
          options.num_oov_indices,
          options.mask_token,
          options.oov_token,
          options.invert,
          options.output_mode,
          options.pad_to_max_tokens};
}

// Returns the lines of a file as tokens. Throws InvalidArgument, naming file and line, for a line
// that is none, and for one that occurs twice.
template <typename Token>
std::vector<Token> read_vocabulary(const char* layer, const std::string& file) {
  auto read = formats::read_vocabulary_file(file_systems(), file);
  if (!read.ok()) {
    const Error& error = read.error();
    throw Error(error.kind(), fmt::format("{}: {}", layer, error.message()), error.hint());
  }
  std::vector<std::string> lines = std::move(read).value();
  if constexpr (std::is_same_v<Token, std::string>) {
    return lines;
  } else {
    std::vector<Token> tokens;
    for (const std::string& line : lines) {
      const std::optional<int64_t> number = parse_int(line);
      if (!number) {
        throw invalid_argument(fmt::format("{}: line {} of {} is \"{}\"", layer, tokens.size() + 1,
                                           file, printable(line)),
                               "each line is an integer");
      }
      tokens.push_back(*number);
    }
    return tokens;
  }
}

// Returns the table that the options describe, and nothing if the vocabulary is still to be
// learned. Throws InvalidArgument for options that cannot be.
template <typename Options>
std::unique_ptr<const LookupTable<TokenOf<Options>>> make_table(const char* layer,
                                                                Options& options) {
  using Token = TokenOf<Options>;
  const LookupRules<Token> rules = rules_of(layer, options);
  rules.check();
  if (!options.vocabulary_file.empty()) {
    if (!options.vocabulary.empty()) {
      throw invalid_argument(
          fmt::format("{}: vocabulary_file is {}, and a vocabulary of {} tokens is given too",
                      layer, options.vocabulary_file, options.vocabulary.size()),
          "give one of them");
    }
    options.vocabulary = read_vocabulary<Token>(layer, options.vocabulary_file);
    if (options.vocabulary.empty()) {
      throw invalid_argument(
          fmt::format("{}: vocabulary_file {} is empty", layer, options.vocabulary_file),
          "it has a token on each line");
    }
  }
  if (options.vocabulary.empty() && options.idf_weights.empty()) return nullptr;
  return std::make_unique<const LookupTable<Token>>(rules, options.vocabulary, options.idf_weights);
}

// Returns the options with the counted tokens as their vocabulary. Throws InvalidArgument if none
// were counted.
template <typename Options>
Options with_counted(const char* layer, Options options,
                     const TokenCounter<TokenOf<Options>>& counter) {
  const auto rules = rules_of(layer, options);
  if (!counter.empty()) options.vocabulary = counter.vocabulary(rules);
  if (options.vocabulary.empty()) {
    throw invalid_argument(fmt::format("{}.adapt: the data has no tokens", layer));
  }
  if (options.output_mode == OutputMode::kTfIdf)
    options.idf_weights = counter.idf_weights(options.vocabulary);
  return options;
}

// Throws InvalidArgument if there is no table yet.
template <typename Token>
const LookupTable<Token>& require_table(const char* layer,
                                        const std::unique_ptr<const LookupTable<Token>>& table) {
  if (table != nullptr) return *table;
  throw invalid_argument(fmt::format("{}: there is no vocabulary yet", layer),
                         "give vocabulary or vocabulary_file, or use what adapt() returns");
}

// Throws InvalidArgument if there is one already.
template <typename Token>
void refuse_table(const char* layer, const std::unique_ptr<const LookupTable<Token>>& table) {
  if (table == nullptr) return;
  throw invalid_argument(fmt::format("{}.adapt: there is a vocabulary already", layer),
                         "leave it out of the options, and adapt once");
}

}  // namespace muster::inline v0_1::internal
