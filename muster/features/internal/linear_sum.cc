#include "muster/features/internal/linear_sum.h"

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

// Adds to `gradient`, of the weights, what follows from that of the sum.
void add_gradient(const LinearTerm& term, const float* of_sum, float* gradient) {
  const int64_t units = term.weights.size(1);
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

Tensor gradient_of(const LinearTerm& term, const Tensor& of_sum) {
  if (is_product(term)) {
    const Tensor transposed = term.amounts.t();
    return of_sum.size(1) > 1 ? transposed.mm(of_sum)
                              : transposed.mv(of_sum.view({-1})).unsqueeze(1);
  }
  Tensor gradient = at::zeros_like(term.weights);
  add_gradient(term, of_sum.data_ptr<float>(), gradient.data_ptr<float>());
  return gradient;
}

// The same by operations that have gradients themselves.
Tensor differentiable_gradient_of(const LinearTerm& term, const Tensor& of_sum) {
  if (!term.places.defined()) return term.amounts.t().matmul(of_sum);
  const Tensor counts = term.places.ge(0);
  Tensor of_rows = of_sum.index_select(0, counts.nonzero().select(1, 0));
  if (term.amounts.defined()) of_rows = of_rows * term.amounts.masked_select(counts).unsqueeze(1);
  return at::zeros_like(term.weights).index_add(0, term.places.masked_select(counts), of_rows);
}

struct LinearSum : public torch::autograd::Function<LinearSum> {
  // `weights` are those of the terms, for autograd to see.
  static Tensor forward(AutogradContext* context, at::TensorList weights,
                        std::vector<LinearTerm>& terms) {
    const at::AutoDispatchBelowADInplaceOrView plain;
    const Tensor& shape = terms[0].places.defined() ? terms[0].places : terms[0].amounts;
    Tensor sum = at::zeros({shape.size(0), weights[0].size(1)}, weights[0].options());
    for (const LinearTerm& term : terms) {
      if (is_product(term)) {
        add_product(term, sum);
      } else {
        add(term, sum.data_ptr<float>());
      }
    }
    // Gradients need the shapes of the weights, and none of their values.
    variable_list saved;
    for (LinearTerm& term : terms) {
      saved.push_back(std::move(term.places));
      saved.push_back(std::move(term.amounts));
    }
    context->save_for_backward(std::move(saved));
    std::vector<int64_t> rows;
    for (const Tensor& each : weights) rows.push_back(each.size(0));
    context->saved_data["rows"] = std::move(rows);
    return sum;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const Tensor of_sum = gradients[0].contiguous();
    const variable_list saved = context->get_saved_variables();
    const std::vector<int64_t> rows = context->saved_data["rows"].toIntVector();
    variable_list result(rows.size() + 1);
    for (size_t t = 0; t < rows.size(); ++t) {
      const LinearTerm term{.weights = at::empty({rows[t], of_sum.size(1)}, of_sum.options()),
                            .places = saved[2 * t],
                            .amounts = saved[2 * t + 1]};
      result[t] = at::GradMode::is_enabled() ? differentiable_gradient_of(term, of_sum)
                                             : gradient_of(term, of_sum);
    }
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

Tensor linear_sum(const std::vector<LinearTerm>& terms) {
  std::vector<LinearTerm> dense = terms;
  std::vector<Tensor> weights;
  for (LinearTerm& term : dense) {
    term.weights = term.weights.contiguous();
    if (term.places.defined()) term.places = term.places.contiguous();
    if (term.amounts.defined()) term.amounts = term.amounts.contiguous();
    weights.push_back(term.weights);
  }
  return LinearSum::apply(at::TensorList(weights), dense);
}

}  // namespace muster::inline v0_1::feature_column::internal
