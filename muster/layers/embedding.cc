#include "muster/layers/embedding.h"

#include <fmt/format.h>

#include <utility>

#include "muster/base/error.h"
#include "muster/layers/internal/checks.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/weight_dtype.h"

namespace muster::inline v0_1 {
namespace {

class EmbeddingImpl final : public LayerImpl {
 public:
  EmbeddingImpl(int64_t input_dim, int64_t output_dim, EmbeddingOptions options)
      : LayerImpl("embedding", options.name),
        input_dim_(input_dim),
        output_dim_(output_dim),
        options_(std::move(options)) {}

  LayerOutputs call(const LayerInputs& inputs, CallContext& context) const override {
    const Tensor& input = internal::single_tensor(context, identity(), inputs, /*takes_mask=*/true);
    if ((input.scalar_type() != kInt64 && input.scalar_type() != kInt32) || input.dim() < 1) {
      internal::refuse_input(context, identity(), "int64 or int32 ids [batch, ...]", input,
                             "convert ids in the input function; text needs a vocabulary first");
    }
    const auto table = [this] {
      return VariableSpec{.name = "embeddings",
                          .shape = {input_dim_, output_dim_},
                          .dtype = options_.dtype,
                          .initializer = options_.embeddings_initializer,
                          .row_sparse = options_.row_sparse,
                          .regularizer = options_.embeddings_regularizer,
                          .constraint = options_.embeddings_constraint};
    };
    Tensor output = context.rows(identity(), 0, table, input);
    context.add_activity_loss(options_.activity_regularizer, output);
    return {.tensors = {std::move(output)}, .masks = masks_of(input, inputs.masks)};
  }

 private:
  std::vector<Tensor> masks_of(const Tensor& ids, const std::vector<Tensor>& given) const {
    if (!options_.mask_zero) return given;
    const Tensor words = ids.ne(0);
    if (given.empty() || !given[0].defined()) return {words};
    Tensor mask = given[0];
    while (mask.dim() < words.dim()) mask = mask.unsqueeze(-1);
    return {words.logical_and(mask)};
  }

  int64_t input_dim_;
  int64_t output_dim_;
  EmbeddingOptions options_;
};

// A step touches few rows of such a table, and these all of them.
void check_row_sparse(const EmbeddingOptions& options) {
  if (!options.row_sparse) return;
  const auto refuse = [&](const char* field, const std::string& value, const char* why) {
    throw invalid_argument(fmt::format("{}: {} is {}, and row_sparse is true",
                                       internal::titled("Embedding", options.name), field, value),
                           fmt::format("{}; give it {{.row_sparse = false}}, and the whole table "
                                       "trains in every step, as in Keras",
                                       why));
  };
  if (options.embeddings_regularizer) {
    refuse("embeddings_regularizer", options.embeddings_regularizer.description(),
           "a penalty changes every row in every step, whether it was used or not");
  }
  if (options.embeddings_constraint && !options.embeddings_constraint.by_rows(/*rank=*/2)) {
    refuse("embeddings_constraint", options.embeddings_constraint.description(),
           "only the rows that were used are known, so a norm is taken of each row: axis {1}");
  }
}

}  // namespace

Layer Embedding(int64_t input_dim, int64_t output_dim, EmbeddingOptions options) {
  internal::check_positive(internal::titled("Embedding", options.name), "input_dim", input_dim);
  internal::check_positive(internal::titled("Embedding", options.name), "output_dim", output_dim);
  if (!is_weight_dtype(options.dtype)) {
    throw invalid_argument(
        fmt::format("{}: dtype is {}", internal::titled("Embedding", options.name),
                    dtype_name(options.dtype)),
        "keep the table in " + weight_dtype_names() + ", and convert what it gives");
  }
  check_row_sparse(options);
  return Layer(std::make_shared<EmbeddingImpl>(input_dim, output_dim, std::move(options)));
}

}  // namespace muster::inline v0_1
