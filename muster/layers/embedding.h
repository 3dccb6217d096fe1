// A learned vector for each id: for words, users, categories.
// Thread safety: immutable values.
#pragma once

#include <cstdint>
#include <string>

#include "muster/base/export.h"
#include "muster/layers/initializers.h"
#include "muster/layers/layer.h"

namespace muster::inline v0_1 {

// Options of Embedding().
struct EmbeddingOptions {
  Initializer embeddings_initializer = initializers::random_uniform();
  Regularizer embeddings_regularizer{};  // must be unset if row_sparse
  Regularizer activity_regularizer{};
  // With row_sparse it must change each row independently: max_norm(2, {1}), not (2, {0}).
  Constraint embeddings_constraint{};
  // Whether id 0 means no word: the result then has a mask that excludes id 0.
  bool mask_zero = false;
  // True: the gradient covers only the rows that a step used; only these are exchanged between
  // replicas and updated. Unused rows and their slots (momentum, Adam's moments) do not change:
  // with plain SGD the result is the same, with other optimizers it is that of "lazy" optimizers.
  // False: the whole table trains in every step, like any other weight and as in Keras; for small
  // tables.
  bool row_sparse = true;
  DType dtype = kFloat32;  // of the table; one that weights may have
  std::string name{};
};

// Returns the row of a table for each id: int64 or int32 ids [batch...] -> [batch..., output_dim].
// A mask of the ids also applies. Variable: "embeddings" [input_dim, output_dim]. An id outside of
// 0 ... input_dim - 1 is an InvalidArgument with the id and its position. Throws InvalidArgument
// for sizes below 1, and for a regularizer or a constraint that row_sparse does not allow.
MUSTER_EXPORT Layer Embedding(int64_t input_dim, int64_t output_dim, EmbeddingOptions options = {});

}  // namespace muster::inline v0_1
