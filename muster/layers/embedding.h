// Learns a vector for each id: of words, users, categories.
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
  Regularizer embeddings_regularizer{};  // refused unless row_sparse is false
  Regularizer activity_regularizer{};
  // Where row_sparse is true, one that changes each row by itself: max_norm(2, {1}), not (2, {0}).
  Constraint embeddings_constraint{};
  // Id 0 stands for no word: the result has a mask, in which ids other than 0 count.
  bool mask_zero = false;
  // true: the gradient is that of the rows a step used, which alone travel between replicas and are
  // updated; rows that were not used stay as they are, and so do their slots (momentum, Adam's
  // moments): with plain SGD the result is the same, with others it is that of "lazy" optimizers.
  // false: the table trains as any other weight, all of it in every step, as Keras's optimizers do;
  // for small tables.
  bool row_sparse = true;
  DType dtype = kFloat32;  // of the table; a dtype of weights
  std::string name{};
};

// Gives the row of a table for each id: int64 or int32 ids [batch...] -> [batch..., output_dim].
// A mask of the ids counts too. Variable: "embeddings" [input_dim, output_dim]. An id outside of 0
// ... input_dim - 1 is an InvalidArgument that names it and its place. Throws InvalidArgument for
// sizes below 1, and for a regularizer or a constraint that row_sparse does not go with.
MUSTER_EXPORT Layer Embedding(int64_t input_dim, int64_t output_dim, EmbeddingOptions options = {});

}  // namespace muster::inline v0_1
