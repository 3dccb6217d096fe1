// Texts become the numbers they have in a vocabulary, and numbers texts.
// Thread safety: immutable values.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/data/dataset.h"
#include "muster/preprocessing/output_mode.h"
#include "muster/tensor/value.h"

namespace muster::inline v0_1 {

// Options of StringLookup.
struct StringLookupOptions {
  int64_t max_tokens = 0;  // of the vocabulary, special ones among them; 0: no limit
  // How many numbers unknown tokens share, by FarmHash. With 0 such a token is an error.
  int64_t num_oov_indices = 1;
  // Has number 0 in kInt, and counts for nothing in other modes.
  std::optional<std::string> mask_token{};
  std::string oov_token = "[UNK]";  // what `invert` gives for other numbers
  // The tokens in the order of their numbers; they may begin with the special ones, as vocabulary()
  // gives them. Or a file with a token on each line: a path or URI. Or neither, and adapt().
  std::vector<std::string> vocabulary{};
  std::string vocabulary_file{};
  std::vector<double> idf_weights{};  // for kTfIdf: one for each token of the vocabulary
  bool invert = false;                // takes numbers and gives texts
  OutputMode output_mode = OutputMode::kInt;
  // Vectors have max_tokens places, also where the vocabulary is smaller.
  bool pad_to_max_tokens = false;
};

// Numbers are: in kInt 0 for the mask token, where there is one; then num_oov_indices for unknown
// tokens; then the vocabulary's. Other output modes begin with the unknown tokens. It is a function
// for map() and for model functions; strings are no tensors, so it is no Layer. The vocabulary is
// part of the program, and not of a checkpoint.
class MUSTER_EXPORT StringLookup {
 public:
  // Throws InvalidArgument for options out of range, and for a vocabulary that is empty, names a
  // token twice, or has too many; NotFound for a file that is not there.
  explicit StringLookup(StringLookupOptions options = {});

  // Returns one with the tokens of this data as its vocabulary, the most frequent first; of two
  // that are equally frequent, the last in the order of bytes. Elements are batches [batch, ...] of
  // the one value it is for; for kTfIdf each row is a document, and the weight of a token is log(1
  // + documents / (1 + documents with it)), of unknown ones the mean. Throws InvalidArgument when a
  // vocabulary was given, and for data without tokens, without end or of other than strings.
  [[nodiscard]] StringLookup adapt(const Dataset& batches) const;
  // The same, of one batch.
  [[nodiscard]] StringLookup adapt(const Strings& batch) const;

  // Gives the numbers, int64, encoded as OutputMode says. Throws InvalidArgument before there is a
  // vocabulary, with `invert`, and for an unknown token where num_oov_indices is 0.
  Tensor operator()(const Strings& tokens) const;
  // Gives the tokens, with `invert` alone. Throws InvalidArgument for other dtypes than those of
  // integers.
  Strings operator()(const Tensor& numbers) const;

  // Token i has number i; without the special tokens it has number i behind them. Empty before
  // there is a vocabulary.
  std::vector<std::string> vocabulary(bool include_special_tokens = true) const;
  // The number of tokens, special ones among them.
  int64_t vocabulary_size() const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace muster::inline v0_1
