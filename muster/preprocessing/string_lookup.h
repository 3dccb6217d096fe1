// Maps texts to their indices in a vocabulary, and indices to texts.
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
  int64_t max_tokens = 0;  // size of the vocabulary, including special tokens; 0: no limit
  // How many indices unknown tokens are divided among, by FarmHash. With 0 such a token is an
  // error.
  int64_t num_oov_indices = 1;
  // Has index 0 in kInt, and is ignored in other modes.
  std::optional<std::string> mask_token{};
  std::string oov_token = "[UNK]";  // the text that `invert` returns for other indices
  // The tokens in the order of their indices; they may begin with the special ones, as in
  // vocabulary(). Or a file with a token on each line: a path or URI. If neither is set, call
  // adapt().
  std::vector<std::string> vocabulary{};
  std::string vocabulary_file{};
  std::vector<double> idf_weights{};  // for kTfIdf: one for each token of the vocabulary
  bool invert = false;                // takes indices and returns texts
  OutputMode output_mode = OutputMode::kInt;
  // Whether vectors have max_tokens entries even if the vocabulary is smaller.
  bool pad_to_max_tokens = false;
};

// Indices in kInt: 0 for the mask token, if there is one; then num_oov_indices for unknown tokens;
// then those of the vocabulary. Other output modes begin with the unknown tokens. It is a function
// for map() and for model functions, but not a Layer, because strings are not tensors. The
// vocabulary is part of the program, not of a checkpoint.
class MUSTER_EXPORT StringLookup {
 public:
  // Throws InvalidArgument for options out of range, and for a vocabulary that is empty, has a
  // repeated token, or is too long; NotFound for a missing file.
  explicit StringLookup(StringLookupOptions options = {});

  // Returns a StringLookup with the tokens of this data as its vocabulary, the most frequent first;
  // of equally frequent ones the last in byte order first. Elements are batches [batch, ...] of the
  // single value. For kTfIdf each row is a document, and the weight of a token is log(1 + documents
  // / (1 + documents with it)), for unknown tokens the mean. Throws InvalidArgument when a
  // vocabulary was given, and for data without tokens, without end or of other types than strings.
  [[nodiscard]] StringLookup adapt(const Dataset& batches) const;
  // The same for one batch.
  [[nodiscard]] StringLookup adapt(const Strings& batch) const;

  // Returns the indices, int64, encoded as OutputMode says. Throws InvalidArgument before there is
  // a vocabulary, with `invert`, and for an unknown token if num_oov_indices is 0.
  Tensor operator()(const Strings& tokens) const;
  // Returns the tokens; only with `invert`. Throws InvalidArgument for dtypes other than integers.
  Strings operator()(const Tensor& numbers) const;

  // Token i has index i; without the special tokens it has index i after them. Empty before there
  // is a vocabulary.
  std::vector<std::string> vocabulary(bool include_special_tokens = true) const;
  // Returns the number of tokens, including special ones.
  int64_t vocabulary_size() const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace muster::inline v0_1
