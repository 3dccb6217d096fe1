#include "muster/features/internal/linear_sum.h"

#include <torch/csrc/autograd/custom_function.h>

#include <array>
#include <utility>

#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::feature_column::internal {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Calls fn(example, row of the weights, amount) for all that count, example by example.
template <typename Fn>
void for_each_amount(const LinearTerm& term, const Fn& fn) {
  const auto* amount = term.amounts.defined() ? term.amounts.data_ptr<float>() : nullptr;
  const Tensor& shape = term.places.defined() ? term.places : term.amounts;
  const int64_t batch = shape.size(0), values = shape.size(1);
  if (!term.places.defined()) {
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t i = 0; i < values; ++i, ++amount) fn(b, i, *amount);
    }
    return;
  }
  const auto* place = term.places.data_ptr<int64_t>();
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t i = 0; i < values; ++i, ++place) {
      if (*place >= 0) fn(b, *place, amount == nullptr ? 1.0F : amount[b * values + i]);
    }
  }
}

// Adds a term to `sum`, [batch, units].
void add(const LinearTerm& term, float* sum) {
  const auto* weights = term.weights.data_ptr<float>();
  const int64_t units = term.weights.size(1);
  if (units == 1) {
    return for_each_amount(
        term, [&](int64_t b, int64_t row, float amount) { sum[b] += amount * weights[row]; });
  }
  for_each_amount(term, [&](int64_t b, int64_t row, float amount) {
    for (int64_t u = 0; u < units; ++u) sum[b * units + u] += amount * weights[row * units + u];
  });
}

// Adds to `gradient`, of the weights, the part that follows from the gradient of the sum.
void add_gradient(const LinearTerm& term, int64_t units, const float* of_sum, float* gradient) {
  if (units == 1) {
    return for_each_amount(
        term, [&](int64_t b, int64_t row, float amount) { gradient[row] += amount * of_sum[b]; });
  }
  for_each_amount(term, [&](int64_t b, int64_t row, float amount) {
    for (int64_t u = 0; u < units; ++u) gradient[row * units + u] += amount * of_sum[b * units + u];
  });
}

// Wide rows are products, at which BLAS is better.
bool is_product(const LinearTerm& term) {
  constexpr int64_t kWide = 16;
  return !term.places.defined() && term.amounts.size(1) >= kWide;
}

void add_product(const LinearTerm& term, Tensor& sum) {
  if (sum.size(1) > 1) {
    sum.addmm_(term.amounts, term.weights);
  } else {
    sum.view({-1}).addmv_(term.amounts, term.weights.view({-1}));
  }
}

using WeightsShape = std::array<int64_t, 2>;

Tensor gradient_of(const LinearTerm& term, const WeightsShape& weights, const Tensor& of_sum) {
  if (is_product(term)) {
    const Tensor transposed = term.amounts.t();
    return of_sum.size(1) > 1 ? transposed.mm(of_sum)
                              : transposed.mv(of_sum.view({-1})).unsqueeze(1);
  }
  Tensor gradient = at::zeros(weights, of_sum.options());
  add_gradient(term, weights[1], of_sum.data_ptr<float>(), gradient.data_ptr<float>());
  return gradient;
}

// The same by operations that have gradients themselves.
Tensor differentiable_gradient_of(const LinearTerm& term, const WeightsShape& weights,
                                  const Tensor& of_sum) {
  if (!term.places.defined()) return term.amounts.t().matmul(of_sum);
  const Tensor counts = term.places.ge(0);
  Tensor of_rows = of_sum.index_select(0, counts.nonzero().select(1, 0));
  if (term.amounts.defined()) of_rows = of_rows * term.amounts.masked_select(counts).unsqueeze(1);
  return at::zeros(weights, of_sum.options())
      .index_add(0, term.places.masked_select(counts), of_rows);
}

struct LinearSum : public torch::autograd::Function<LinearSum> {
  // `leaves` are the weights of the terms and the bias, for autograd to see.
  static Tensor forward(AutogradContext* context, at::TensorList leaves,
                        std::vector<LinearTerm>& terms) {
    const at::AutoDispatchBelowADInplaceOrView plain;
    const Tensor& bias = leaves.back();
    const Tensor& shape = terms[0].places.defined() ? terms[0].places : terms[0].amounts;
    Tensor sum = bias.expand({shape.size(0), bias.size(0)}).clone(at::MemoryFormat::Contiguous);
    for (const LinearTerm& term : terms) {
      if (is_product(term)) {
        add_product(term, sum);
      } else {
        add(term, sum.data_ptr<float>());
      }
    }
    // Gradients need the shapes of the weights, and none of their values.
    variable_list saved;
    std::vector<int64_t> rows;
    for (LinearTerm& term : terms) {
      rows.push_back(term.weights.size(0));
      saved.push_back(std::move(term.places));
      saved.push_back(std::move(term.amounts));
    }
    context->save_for_backward(std::move(saved));
    context->saved_data["rows"] = std::move(rows);
    return sum;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const Tensor of_sum = gradients[0].contiguous();
    const variable_list saved = context->get_saved_variables();
    const std::vector<int64_t> rows = context->saved_data["rows"].toIntVector();
    const bool again = at::GradMode::is_enabled();
    variable_list result(rows.size() + 2);  // of the terms, the bias, and the argument `terms`
    for (size_t t = 0; t < rows.size(); ++t) {
      const WeightsShape weights{rows[t], of_sum.size(1)};
      const LinearTerm term{.places = saved[2 * t], .amounts = saved[2 * t + 1]};
      result[t] = again ? differentiable_gradient_of(term, weights, of_sum)
                        : gradient_of(term, weights, of_sum);
    }
    result[rows.size()] = of_sum.sum(0);
    return result;
  }
};

}  // namespace

bool is_linear_term(const LinearTerm& term) {
  const auto plain = [](const Tensor& tensor) {
    return tensor.is_cpu() && tensor.scalar_type() == kFloat32;
  };
  return plain(term.weights) && plain(term.amounts) && !term.amounts.requires_grad();
}

Tensor linear_sum(const std::vector<LinearTerm>& terms, const Tensor& bias) {
  std::vector<LinearTerm> dense = terms;
  std::vector<Tensor> leaves;
  for (LinearTerm& term : dense) {
    term.weights = term.weights.contiguous();
    if (term.places.defined()) term.places = term.places.contiguous();
    if (term.amounts.defined()) term.amounts = term.amounts.contiguous();
    leaves.push_back(term.weights);
  }
  leaves.push_back(bias);
  return LinearSum::apply(at::TensorList(leaves), dense);
}

}  // namespace muster::inline v0_1::feature_column::internal
