#include "muster/distribute/reducer.h"

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "muster/base/error.h"
#include "muster/distribute/internal/backward.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::distribute {
namespace {

constexpr int64_t kHeadAlignment = 16;  // elements: one cache line of float32

}  // namespace

void check_wire_dtype(const std::string& option, DType dtype) {
  if (dtype == kFloat32 || dtype == at::kBFloat16) return;
  throw invalid_argument(
      fmt::format("{} is {}", option, dtype_name(dtype)),
      dtype == at::kHalf ? "gradients leave the range of float16; use kBFloat16, which has that "
                           "of float32"
                         : "use kFloat32 or kBFloat16");
}

struct Reducer::Hook : torch::autograd::FunctionPostHook {
  Hook(Reducer* reducer, size_t parameter) : reducer(reducer), parameter(parameter) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    reducer->on_gradient(parameter);
    return outputs;
  }
  Reducer* reducer;
  size_t parameter;
};

struct Reducer::Accumulators {
  // How LibTorch shares a node depends on its version.
  std::vector<decltype(torch::autograd::impl::grad_accumulator(std::declval<const Tensor&>()))>
      nodes;
};

Reducer::Reducer(Communicator& communicator, GradientLayout layout, int head,
                 const plan::BucketOptions& options, DType wire)
    : communicator_(communicator),
      layout_(std::move(layout)),
      head_size_(head),
      accumulators_(std::make_unique<Accumulators>()) {
  const auto& all = layout_.parameters;
  const auto head_numbers = static_cast<int64_t>(head) + static_cast<int64_t>(all.size());
  const int64_t head_padded = (head_numbers + kHeadAlignment - 1) / kHeadAlignment * kHeadAlignment;
  for (size_t b = 0; b < layout_.buffers.size(); ++b) {
    const GradientLayout::Buffer& buffer = layout_.buffers[b];
    const int64_t front = b == 0 ? head_padded : 0;
    const auto element = static_cast<int64_t>(c10::elementSize(buffer.dtype));
    memory_.push_back(
        communicator_.allocate((front + buffer.elements) * element).view(buffer.dtype));
    gradients_.push_back(memory_.back().slice(0, front));
    if (b == 0) front_ = front;
    wire_.emplace_back();
    if (wire == kFloat32 || buffer.dtype != kFloat32) continue;
    wire_.back() =
        communicator_
            .allocate((front + buffer.elements) * static_cast<int64_t>(c10::elementSize(wire)))
            .view(wire);
  }

  // The head is a parameter like the others, whose gradient is never announced: its bucket leaves
  // last.
  const auto head_number = static_cast<int64_t>(all.size());
  std::vector<plan::FlatParameter> cut{
      {.parameter = head_number, .bytes = head_padded * memory_[0].element_size(), .dtype = 0}};
  for (size_t p = 0; p < all.size(); ++p) {
    const auto element = static_cast<int64_t>(
        c10::elementSize(layout_.buffers[static_cast<size_t>(all[p].buffer)].dtype));
    cut.push_back({.parameter = static_cast<int64_t>(p),
                   .bytes = all[p].padded * element,
                   .dtype = all[p].buffer});
  }
  buckets_ = plan::plan_buckets(cut, options);
  progress_ = std::make_unique<plan::BucketProgress>(buckets_, plan::launch_order(buckets_, {}));

  for (size_t p = 0; p < all.size(); ++p) {
    views_.push_back(gradients_[static_cast<size_t>(all[p].buffer)]
                         .slice(0, all[p].offset, all[p].offset + all[p].elements)
                         .view(all[p].weight.sizes()));
    auto accumulator = torch::autograd::impl::grad_accumulator(all[p].weight);
    accumulator->add_post_hook(std::make_unique<Hook>(this, p));
    accumulators_->nodes.push_back(std::move(accumulator));
    by_tensor_.emplace(all[p].weight.unsafeGetTensorImpl(), p);
  }
  ready_.assign(all.size(), false);
  taken_.assign(all.size(), false);
  used_.assign(all.size(), false);
  head_.assign(static_cast<size_t>(head), 0);
}

Reducer::~Reducer() {
  // Code that still holds a loss also holds its accumulators.
  for (const auto& accumulator : accumulators_->nodes) {
    std::erase_if(accumulator->post_hooks(), [this](const auto& hook) {
      const auto* ours = dynamic_cast<const Hook*>(hook.get());
      return ours != nullptr && ours->reducer == this;
    });
  }
}

void Reducer::begin(bool first, bool last) {
  active_ = true;
  leaving_ = last;
  progress_->reset();
  if (first) std::fill(ready_.begin(), ready_.end(), false);
  std::fill(taken_.begin(), taken_.end(), false);
  observed_.clear();
  works_.clear();
  held_.clear();
  others_ = 0;
}

void Reducer::other_collective() {
  if (active_) most_others_ = std::max(most_others_, ++others_);
}

Tensor Reducer::take(const Tensor& parameter) {
  const auto found = by_tensor_.find(parameter.unsafeGetTensorImpl());
  if (!active_ || found == by_tensor_.end()) return {};
  const size_t p = found->second;
  if (ready_[p] || taken_[p]) return {};  // what lies there is to be kept
  taken_[p] = true;
  return views_[p].detach();
}

void Reducer::on_gradient(size_t parameter) {
  if (!active_) return;  // a backward of the model function's own
  Tensor& gradient = layout_.parameters[parameter].weight.mutable_grad();
  if (!gradient.defined()) return;
  internal::check_dense(layout_.parameters[parameter].name, gradient);
  // Copying a gradient that autograd has just written costs less than letting it add into a zeroed
  // buffer.
  if (ready_[parameter]) {
    views_[parameter].add_(gradient);
  } else if (gradient.data_ptr() != views_[parameter].data_ptr()) {
    views_[parameter].copy_(gradient);
  }
  gradient.reset();
  ready_[parameter] = true;
  if (!order_is_shared_) {
    observed_.push_back(static_cast<int64_t>(parameter));
    return;  // the first step finds out the order; its buckets leave after backward
  }
  if (!leaving_) return;
  const auto ready = progress_->ready(static_cast<int64_t>(parameter));
  held_.insert(held_.end(), ready.begin(), ready.end());
  if (others_ == most_others_) launch_held();
}

void Reducer::take_earlier() {
  for (size_t p = 0; p < ready_.size(); ++p) {
    if (!ready_[p]) on_gradient(p);
  }
}

void Reducer::launch_held() {
  launch(held_);
  held_.clear();
}

void Reducer::launch(std::span<const int> buckets) {
  for (int b : buckets) {
    const plan::Bucket& bucket = buckets_[static_cast<size_t>(b)];
    const Tensor& memory = memory_[static_cast<size_t>(bucket.dtype)];
    const int64_t element = memory.element_size();
    const int64_t begin = bucket.offset / element, end = (bucket.offset + bucket.bytes) / element;
    const Tensor& wire = wire_[static_cast<size_t>(bucket.dtype)];
    const int64_t rounded =
        !wire.defined() ? end : std::max(begin, bucket.dtype == 0 ? front_ : int64_t{0});
    if (begin < rounded) send(memory.slice(0, begin, rounded), b);
    if (rounded == end) continue;
    const Tensor narrow = wire.slice(0, rounded, end);
    Tensor(narrow).copy_(memory.slice(0, rounded, end));
    send(narrow, b);
  }
}

void Reducer::send(const Tensor& buffer, int bucket) {
  Launched launched{.work = {}, .bucket = bucket, .bytes = static_cast<int64_t>(buffer.nbytes())};
  if (recorder_ != nullptr) launched.begun = std::chrono::steady_clock::now();
  launched.work = communicator_.all_reduce(buffer);
  if (recorder_ != nullptr) {
    launched.work.note_end();
    launched.sent = std::chrono::steady_clock::now();
  }
  works_.push_back(std::move(launched));
}

void Reducer::finish(const std::vector<double>& head) {
  active_ = false;
  torch::NoGradGuard no_grad;
  const auto parameters = static_cast<int64_t>(ready_.size());
  const Tensor front = memory_[0].slice(0, 0, head_size_ + parameters);
  const Tensor here = front.is_cpu() ? front : torch::empty(front.sizes(), front.scalar_type());
  AT_DISPATCH_FLOATING_TYPES(front.scalar_type(), "muster_head", [&] {
    auto* numbers = here.data_ptr<scalar_t>();
    for (double number : head) *numbers++ = static_cast<scalar_t>(number);
    for (bool ready : ready_) *numbers++ = ready ? 1 : 0;
  });
  if (!front.is_cpu()) Tensor(front).copy_(here);
  for (int64_t p = 0; p < parameters; ++p) {
    if (!ready_[static_cast<size_t>(p)]) views_[static_cast<size_t>(p)].zero_();
  }
  if (!order_is_shared_) adopt_observed_order();
  launch_held();
  launch(progress_->rest());
  await_all();
  for (size_t b = 0; b < wire_.size(); ++b) {
    if (wire_[b].defined()) gradients_[b].copy_(wire_[b].slice(0, b == 0 ? front_ : 0));
  }
  if (!front.is_cpu()) Tensor(here).copy_(front);
  AT_DISPATCH_FLOATING_TYPES(front.scalar_type(), "muster_head", [&] {
    const scalar_t* numbers = here.data_ptr<scalar_t>();
    for (size_t i = 0; i < head_.size(); ++i) head_[i] = static_cast<double>(numbers[i]);
    for (size_t p = 0; p < used_.size(); ++p) used_[p] = numbers[head_.size() + p] > 0;
  });
}

void Reducer::await_all() {
  for (const Launched& launched : works_) {
    try {
      launched.work.wait();
    } catch (const Error& error) {
      throw Error(error.kind(),
                  fmt::format("{}, in the reduction of {}", error.message(),
                              describe_bucket(launched.bucket)),
                  error.hint());
    }
  }
  if (recorder_ != nullptr) note_spans();
  works_.clear();
}

// Buckets are reduced in the order in which they leave.
void Reducer::note_spans() const {
  TimePoint before{};
  for (const Launched& launched : works_) {
    const TimePoint begin = std::max(launched.begun, before);
    // One without an end was done before it was asked to note it.
    const TimePoint end = std::max(begin, launched.work.ended().value_or(launched.sent));
    const std::vector<int64_t>& parameters =
        buckets_[static_cast<size_t>(launched.bucket)].parameters;
    const auto tensors = std::ranges::count_if(
        parameters, [&](int64_t p) { return p < static_cast<int64_t>(ready_.size()); });
    recorder_->add(SpanRecorder::kReductions,
                   fmt::format("bucket {} of {}", launched.bucket + 1, buckets_.size()), begin, end,
                   {{"bytes", launched.bytes},
                    {"tensors", tensors},
                    {"queued_ns", (begin - launched.begun).count()}});
    before = end;
  }
}

std::string Reducer::describe_bucket(int bucket) const {
  const auto& all = layout_.parameters;
  std::vector<std::string> names;
  for (const int64_t p : buckets_[static_cast<size_t>(bucket)].parameters) {
    if (p < static_cast<int64_t>(all.size())) names.push_back(all[static_cast<size_t>(p)].name);
  }
  const std::string number = fmt::format("bucket {} of {}", bucket + 1, buckets_.size());
  if (names.empty()) return number + " (the numbers of the step)";
  if (names.size() == 1) return fmt::format("{} (gradient of {})", number, names[0]);
  return fmt::format("{} (gradients of {} to {})", number, names.front(), names.back());
}

void Reducer::adopt_observed_order() {
  // A replica without data in the first step observed nothing; all use the chief's order.
  Tensor order = torch::full({static_cast<int64_t>(ready_.size())}, -1, at::kLong);
  int64_t* numbers = order.data_ptr<int64_t>();
  for (size_t i = 0; i < observed_.size(); ++i) numbers[i] = observed_[i];
  communicator_.broadcast(order, 0).wait();
  std::vector<int64_t> shared;
  for (int64_t i = 0; i < order.numel() && numbers[i] >= 0; ++i) shared.push_back(numbers[i]);
  progress_ =
      std::make_unique<plan::BucketProgress>(buckets_, plan::launch_order(buckets_, shared));
  order_is_shared_ = true;
}

}  // namespace muster::inline v0_1::distribute
