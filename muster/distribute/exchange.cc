#include "muster/distribute/exchange.h"

#include <torch/csrc/autograd/custom_function.h>

#include "muster/base/error.h"
#include "muster/distribute/internal/check_reducible.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::distribute {

void internal::check_reducible(ReduceOp op, const Tensor& value) {
  if (op != ReduceOp::kMean || value.is_floating_point()) return;
  throw invalid_argument("reduce(kMean) got " + describe(value),
                         "convert it to float32 or float64 first");
}

namespace {

class LoneExchange final : public Exchange {
 public:
  Tensor reduce(ReduceOp op, const Tensor& value) override {
    internal::check_reducible(op, value);
    return value.detach().clone();
  }
  std::vector<Tensor> gather(const Tensor& value, int64_t) override { return {value}; }
  void broadcast(const std::vector<Tensor>&) override {}
  void end_of_function() override {}
  void before_collective(std::function<void()>) override {}
  std::string set_call(std::string) override { return {}; }
};

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The exchange goes through autograd as a number, for which it has no type.
int64_t as_number(Exchange& exchange) { return reinterpret_cast<int64_t>(&exchange); }
Exchange& exchange_of(const c10::IValue& value) {
  return *reinterpret_cast<Exchange*>(value.toInt());
}

struct AllReduce : torch::autograd::Function<AllReduce> {
  static Tensor forward(AutogradContext* context, const Tensor& value, int64_t op,
                        int64_t exchange) {
    context->saved_data["op"] = op;
    context->saved_data["exchange"] = exchange;
    return exchange_of(exchange).reduce(static_cast<ReduceOp>(op), value);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto op = static_cast<ReduceOp>(context->saved_data["op"].toInt());
    Exchange& exchange = exchange_of(context->saved_data["exchange"]);
    return {exchange.reduce(op, gradients[0].contiguous()), Tensor(), Tensor()};
  }
};

struct AllGather : torch::autograd::Function<AllGather> {
  static Tensor forward(AutogradContext* context, const Tensor& value, int64_t axis,
                        int64_t replica, int64_t exchange) {
    const std::vector<Tensor> parts = exchange_of(exchange).gather(value, axis);
    int64_t begin = 0;
    for (int64_t r = 0; r < replica; ++r) begin += parts[static_cast<size_t>(r)].size(axis);
    context->saved_data["axis"] = axis;
    context->saved_data["begin"] = begin;
    context->saved_data["size"] = value.size(axis);
    context->saved_data["exchange"] = exchange;
    return torch::cat(parts, axis);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    Exchange& exchange = exchange_of(context->saved_data["exchange"]);
    const Tensor all = exchange.reduce(ReduceOp::kSum, gradients[0].contiguous());
    return {all.narrow(context->saved_data["axis"].toInt(), context->saved_data["begin"].toInt(),
                       context->saved_data["size"].toInt()),
            Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

std::unique_ptr<Exchange> make_lone_exchange() { return std::make_unique<LoneExchange>(); }

Tensor all_reduce(Exchange& exchange, ReduceOp op, const Tensor& value) {
  return AllReduce::apply(value, static_cast<int64_t>(op), as_number(exchange));
}

Tensor all_gather(Exchange& exchange, int replica, const Tensor& value, int64_t axis) {
  return AllGather::apply(value, axis, static_cast<int64_t>(replica), as_number(exchange));
}

}  // namespace muster::inline v0_1::distribute
