#include "muster/layers/internal/traced_steps.h"

#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/ir/ir.h>

#include <memory>
#include <utility>

#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::internal {
namespace {

namespace tracer = torch::jit::tracer;
using torch::jit::Value;

StepsResult compute(const std::vector<Tensor>& sequences, std::vector<Tensor> state,
                    const StepFunction& step) {
  // One unbind costs one node of the graph; the backward of a select would fill all steps again.
  std::vector<std::vector<Tensor>> slices;
  for (const Tensor& sequence : sequences) slices.push_back(sequence.unbind(0));
  std::vector<Tensor> outputs;
  for (size_t t = 0; t < slices.front().size(); ++t) {
    std::vector<Tensor> now;
    for (const auto& each : slices) now.push_back(each[t]);
    std::vector<Tensor> made = step(now, state);
    outputs.push_back(std::move(made.front()));
    state.assign(std::make_move_iterator(made.begin() + 1), std::make_move_iterator(made.end()));
  }
  return {.outputs = at::stack(outputs), .last = outputs.back(), .state = std::move(state)};
}

// While it exists, nothing on this thread is recorded.
class Untraced {
 public:
  Untraced() : state_(tracer::getTracingState()) { tracer::setTracingState(nullptr); }
  ~Untraced() { tracer::setTracingState(state_); }
  Untraced(const Untraced&) = delete;
  Untraced& operator=(const Untraced&) = delete;

 private:
  const std::shared_ptr<tracer::TracingState> state_;
};

// A tensor of the same numbers that the trace does not know yet.
Tensor unknown(const Tensor& tensor) {
  const Untraced untraced;
  return tensor.alias();
}

Tensor unknown_first_slice(const Tensor& sequence) {
  const Untraced untraced;
  return sequence.select(0, 0);
}

// A loop in the graph that is being recorded.
class TracedLoop {
 public:
  explicit TracedLoop(const Tensor& first)
      : tracing_(*tracer::getTracingState()), graph_(*tracing_.graph) {
    Value* steps = graph_.insert(c10::aten::size, {tracing_.getValue(first), 0});
    list_ = graph_.insertNode(graph_.createList(c10::TensorType::get(), {}))->output();
    Value* more = graph_.insertConstant(true);
    loop_ = graph_.create(c10::prim::Loop, {steps, more}, 0);
  }

  void record(const std::vector<Tensor>& sequences, const std::vector<Tensor>& state,
              const StepFunction& step) {
    for (const Tensor& each : state) loop_->addInput(tracing_.getValue(each));
    std::vector<Value*> whole;
    for (const Tensor& each : sequences) whole.push_back(tracing_.getValue(each));
    graph_.insertNode(loop_);
    torch::jit::Block* body = loop_->addBlock();
    Value* at = body->addInput("step");
    at->setType(c10::IntType::get());
    const tracer::WithNestedTracingFrame frame;
    const torch::jit::WithInsertPoint inside(body);
    std::vector<Tensor> slices, before;
    for (size_t i = 0; i < sequences.size(); ++i) {
      slices.push_back(unknown_first_slice(sequences[i]));
      tracing_.setValue(slices.back(), graph_.insert(c10::aten::select, {whole[i], 0, at}));
    }
    for (const Tensor& each : state) {
      before.push_back(unknown(each));
      Value* value = body->addInput();
      value->setType(c10::TensorType::get());
      tracing_.setValue(before.back(), value);
    }
    const std::vector<Tensor> made = step(slices, before);
    graph_.insert(c10::aten::append, {list_, tracing_.getValue(made.front())});
    body->registerOutput(graph_.insertConstant(true));
    for (size_t i = 1; i < made.size(); ++i) {
      body->registerOutput(tracing_.getValue(made[i]));
      loop_->addOutput()->setType(c10::TensorType::get());
    }
  }

  // From now on these tensors are what the loop makes.
  void bind(const StepsResult& result) {
    tracing_.setValue(result.outputs, graph_.insert(c10::aten::stack, {list_, 0}));
    tracing_.setValue(result.last, graph_.insert(c10::aten::__getitem__, {list_, -1}));
    for (size_t i = 0; i < result.state.size(); ++i)
      tracing_.setValue(result.state[i], loop_->outputs()[i]);
  }

 private:
  tracer::TracingState& tracing_;
  torch::jit::Graph& graph_;
  Value* list_ = nullptr;
  torch::jit::Node* loop_ = nullptr;
};

}  // namespace

StepsResult compute_steps(const std::vector<Tensor>& sequences, std::vector<Tensor> state,
                          const StepFunction& step) {
  if (!tracer::isTracing()) return compute(sequences, std::move(state), step);
  TracedLoop loop(sequences.front());
  loop.record(sequences, state, step);
  StepsResult result;
  {
    const Untraced untraced;
    result = compute(sequences, std::move(state), step);
    // The last output may be the state too, which is another value of the loop.
    result.last = result.last.alias();
    for (Tensor& each : result.state) each = each.alias();
  }
  loop.bind(result);
  return result;
}

}  // namespace muster::inline v0_1::internal
