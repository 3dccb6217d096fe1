#include "muster/distribute/reducer.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <iterator>
#include <limits>
#include <utility>

#include "muster/base/error.h"
#include "muster/distribute/internal/backward.h"
#include "muster/distribute/internal/flat_memory.h"
#include "muster/plan/activity.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::distribute {
namespace {

constexpr int64_t kHeadAlignment = 16;  // elements: one cache line of float32
constexpr int kMostParts = 4;           // messages of a bucket
constexpr size_t kMostRoutes = 16;

// Whether the gradient was written into the view itself. A tensor of XLA has no address, and is
// never written so.
bool lies_there(const Tensor& gradient, const Tensor& view) {
  return !gradient.is_xla() && gradient.data_ptr() == view.data_ptr();
}

// To divide gradients where they are copied costs nothing, and gives the bits of dividing their sum
// where that is exact: by a power of two, in a dtype whose smallest numbers no gradient needs.
// Undefined where it is not.
Tensor first_scale(DType dtype, int ranks) {
  const bool exact =
      std::has_single_bit(static_cast<unsigned>(ranks)) && (dtype == kFloat32 || dtype == kFloat64);
  return exact && ranks > 1 ? torch::full({}, 1.0 / ranks, dtype) : Tensor();
}

// The numbers of `flat` in the shape of the weight, and in its order in memory if it has no gaps:
// optimizers are slow where a gradient has another one.
Tensor in_order_of(const Tensor& weight, const Tensor& flat) {
  // XLA has no order in memory, and torch_xla refuses strides of a part of a tensor.
  if (flat.is_xla() || !weight.is_non_overlapping_and_dense()) return flat.view(weight.sizes());
  return flat.as_strided(weight.sizes(), weight.strides(), flat.storage_offset());
}

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
                 const plan::BucketOptions& options, DType wire, bool means)
    : communicator_(communicator),
      layout_(std::move(layout)),
      head_size_(head),
      means_(means),
      accumulators_(std::make_unique<Accumulators>()) {
  const auto& all = layout_.parameters;
  const auto head_numbers = static_cast<int64_t>(head) + static_cast<int64_t>(all.size());
  const int64_t head_padded = (head_numbers + kHeadAlignment - 1) / kHeadAlignment * kHeadAlignment;
  for (size_t b = 0; b < layout_.buffers.size(); ++b) {
    const GradientLayout::Buffer& buffer = layout_.buffers[b];
    const int64_t front = b == 0 ? head_padded : 0;
    const auto element = static_cast<int64_t>(c10::elementSize(buffer.dtype));
    memory_.push_back(internal::as_numbers(
        communicator_.allocate((front + buffer.elements) * element), buffer.dtype));
    gradients_.push_back(memory_.back().slice(0, front));
    if (b == 0) front_ = front;
    scale_.push_back(means ? first_scale(buffer.dtype, communicator_.size()) : Tensor());
    wire_.emplace_back();
    if (wire == kFloat32 || buffer.dtype != kFloat32) continue;
    const auto sent = static_cast<int64_t>(c10::elementSize(wire));
    wire_.back() =
        internal::as_numbers(communicator_.allocate((front + buffer.elements) * sent), wire);
  }

  // The head is a parameter like the others, whose gradient is never announced: its bucket leaves
  // last.
  const auto head_number = static_cast<int64_t>(all.size());
  flat_.push_back(
      {.parameter = head_number, .bytes = head_padded * memory_[0].element_size(), .dtype = 0});
  for (size_t p = 0; p < all.size(); ++p) {
    const auto element = static_cast<int64_t>(
        c10::elementSize(layout_.buffers[static_cast<size_t>(all[p].buffer)].dtype));
    flat_.push_back({.parameter = static_cast<int64_t>(p),
                     .bytes = all[p].padded * element,
                     .dtype = all[p].buffer});
  }
  buckets_ = plan::plan_buckets(flat_, options);
  if (communicator_.sums_in_rank_order()) prediction_.emplace(all.size());

  for (size_t p = 0; p < all.size(); ++p) {
    views_.push_back(
        in_order_of(all[p].weight, gradients_[static_cast<size_t>(all[p].buffer)].slice(
                                       0, all[p].offset, all[p].offset + all[p].elements)));
    auto accumulator = torch::autograd::impl::grad_accumulator(all[p].weight);
    accumulator->add_post_hook(std::make_unique<Hook>(this, p));
    accumulators_->nodes.push_back(std::move(accumulator));
    by_tensor_.emplace(all[p].weight.unsafeGetTensorImpl(), p);
  }
  waiting_.resize(all.size());
  ready_.assign(all.size(), false);
  taken_.assign(all.size(), false);
  missed_.assign(all.size(), false);
  used_.assign(all.size(), false);
  head_.assign(static_cast<size_t>(head), 0);
  take_route();
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

int64_t Reducer::bytes() const {
  int64_t bytes = 0;
  for (const auto* buffers : {&memory_, &wire_}) {
    for (const Tensor& buffer : *buffers)
      bytes += buffer.defined() ? static_cast<int64_t>(buffer.nbytes()) : 0;
  }
  return bytes;
}

Reducer::Route Reducer::make_route(std::vector<bool> travels) const {
  travels.push_back(true);  // the head
  Route route{.buckets = plan::used_parts(flat_, buckets_, travels, kMostParts)};
  route.travels.assign(travels.size(), false);
  for (const plan::Bucket& bucket : route.buckets) {
    for (const int64_t p : bucket.parameters) route.travels[static_cast<size_t>(p)] = true;
  }
  std::vector<int64_t> order;
  if (order_is_shared_) {
    std::ranges::copy_if(observed_, std::back_inserter(order),
                         [&](int64_t p) { return route.travels[static_cast<size_t>(p)]; });
  }
  route.progress.emplace(route.buckets, plan::launch_order(route.buckets, order));
  return route;
}

void Reducer::take_route() {
  const std::vector<bool> expected =
      prediction_ ? prediction_->expected() : std::vector<bool>(ready_.size(), true);
  auto found = routes_.find(expected);
  if (found == routes_.end()) {
    if (routes_.size() == kMostRoutes) routes_.clear();
    found = routes_.emplace(expected, make_route(expected)).first;
  }
  route_ = &found->second;
}

void Reducer::begin(bool first, bool last) {
  active_ = true;
  leaving_ = last;
  route_->progress->reset();
  if (first) {
    std::fill(ready_.begin(), ready_.end(), false);
    keeps_ = false;
  }
  std::fill(taken_.begin(), taken_.end(), false);
  if (!order_is_shared_) observed_.clear();
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
  if (!active_) {  // a backward of the model function's own, or of a step that is added up
    missed_[parameter] = true;
    return;
  }
  Tensor& gradient = layout_.parameters[parameter].weight.mutable_grad();
  if (!gradient.defined()) return;
  internal::check_dense(layout_.parameters[parameter].name, gradient);
  // Copying a gradient that autograd has just written costs less than letting it add into a zeroed
  // buffer.
  ready_[parameter] ? add(parameter, gradient) : put(parameter, gradient);
  gradient.reset();
  ready_[parameter] = true;
  if (!order_is_shared_) {
    observed_.push_back(static_cast<int64_t>(parameter));
    return;  // the first step finds out the order; its buckets leave after backward
  }
  if (!leaving_ || !route_->travels[parameter]) return;
  const auto ready = route_->progress->ready(static_cast<int64_t>(parameter));
  held_.insert(held_.end(), ready.begin(), ready.end());
  if (others_ == most_others_) launch_held();
}

void Reducer::put(size_t parameter, const Tensor& gradient) {
  const Tensor& scale = scale_[static_cast<size_t>(layout_.parameters[parameter].buffer)];
  Tensor& view = views_[parameter];
  if (view.is_xla()) {
    waiting_[parameter] = scale.defined() ? gradient * scale : gradient;
  } else if (lies_there(gradient, view)) {
    if (scale.defined()) view.mul_(scale);
  } else if (scale.defined()) {
    at::mul_out(view, gradient, scale);
  } else {
    view.copy_(gradient);
  }
}

void Reducer::add(size_t parameter, const Tensor& gradient) {
  const Tensor& scale = scale_[static_cast<size_t>(layout_.parameters[parameter].buffer)];
  const Tensor scaled = scale.defined() ? gradient * scale : gradient;
  Tensor& waiting = waiting_[parameter];
  if (waiting.defined()) {
    waiting = waiting + scaled;
  } else {
    views_[parameter].add_(scaled);
  }
}

void Reducer::write_waiting(const plan::Bucket& cut) {
  const Tensor& memory = memory_[static_cast<size_t>(cut.dtype)];
  const int64_t front = cut.dtype == 0 ? front_ : 0;
  const int64_t begin = cut.offset / memory.element_size();
  const int64_t end = begin + cut.bytes / memory.element_size();
  std::vector<Tensor> parts;
  int64_t at = begin;
  const auto keep_until = [&](int64_t place) {
    if (at < place) parts.push_back(memory.slice(0, at, place));
    at = place;
  };
  for (const int64_t p : cut.parameters) {
    if (p == static_cast<int64_t>(waiting_.size())) continue;  // the head
    const Tensor gradient = std::exchange(waiting_[static_cast<size_t>(p)], {});
    if (!gradient.defined()) continue;
    keep_until(front + layout_.parameters[static_cast<size_t>(p)].offset);
    parts.push_back(gradient.reshape({-1}));
    at += gradient.numel();
  }
  if (parts.empty()) return;
  keep_until(end);
  memory.slice(0, begin, end).copy_(at::cat(parts));
}

void Reducer::divide(const Tensor& gradients) const {
  const int ranks = communicator_.size();
  const bool scaled = means_ && first_scale(gradients.scalar_type(), ranks).defined();
  if (scaled && count_ != ranks) gradients.mul_(ranks);
  if (means_ && count_ > 1 && !(scaled && count_ == ranks)) gradients.div_(count_);
}

void Reducer::take_earlier() {
  keeps_ = true;
  for (size_t p = 0; p < ready_.size(); ++p) {
    if (missed_[p] && !ready_[p]) on_gradient(p);
  }
}

void Reducer::fill(size_t parameter) {
  Tensor& gradient = layout_.parameters[parameter].weight.mutable_grad();
  if (!keeps_ || !gradient.defined()) {
    if (views_[parameter].is_xla()) {
      waiting_[parameter] = torch::zeros_like(views_[parameter]);
    } else {
      views_[parameter].zero_();
    }
  } else {
    // Where nobody used it, it stays as it is: the mean of equal numbers is not always that number.
    if (lies_there(gradient, views_[parameter])) gradient = gradient.clone();
    put(parameter, gradient);
  }
}

void Reducer::launch_held() {
  launch(held_);
  held_.clear();
}

void Reducer::launch(std::span<const int> buckets) {
  for (const int b : buckets) launch(route_->buckets, static_cast<size_t>(b));
}

void Reducer::launch(const std::vector<plan::Bucket>& buckets, size_t bucket) {
  const plan::Bucket& cut = buckets[bucket];
  const Tensor& memory = memory_[static_cast<size_t>(cut.dtype)];
  if (memory.is_xla()) write_waiting(cut);
  const int64_t element = memory.element_size();
  const int64_t begin = cut.offset / element, end = (cut.offset + cut.bytes) / element;
  const int64_t gradients = std::max(begin, cut.dtype == 0 ? front_ : int64_t{0});
  Launched launched{.buckets = &buckets, .bucket = bucket};
  const Tensor& wire = wire_[static_cast<size_t>(cut.dtype)];
  if (!wire.defined()) {
    if (gradients < end) launched.gradients = memory.slice(0, gradients, end);
    return send(memory.slice(0, begin, end), std::move(launched));
  }
  if (begin < gradients) send(memory.slice(0, begin, gradients), launched);
  if (gradients == end) return;
  launched.gradients = memory.slice(0, gradients, end);
  launched.narrow = wire.slice(0, gradients, end);
  launched.narrow.copy_(launched.gradients);
  const Tensor narrow = launched.narrow;
  send(narrow, std::move(launched));
}

void Reducer::send(const Tensor& buffer, Launched launched) {
  launched.bytes = static_cast<int64_t>(buffer.nbytes());
  if (recorder_ != nullptr) launched.begun = std::chrono::steady_clock::now();
  launched.work = communicator_.all_reduce(buffer);
  if (recorder_ != nullptr) {
    launched.work.note_end();
    launched.sent = std::chrono::steady_clock::now();
  }
  works_.push_back(std::move(launched));
}

void Reducer::finish(const std::vector<double>& head, int count) {
  active_ = false;
  count_ = count;
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
  if (!order_is_shared_) adopt_observed_order();
  for (size_t p = 0; p < ready_.size(); ++p) {
    if (!ready_[p] && route_->travels[p]) fill(p);
  }
  launch_held();
  launch(route_->progress->rest());
  await_all();
  if (!front.is_cpu()) Tensor(here).copy_(front);
  AT_DISPATCH_FLOATING_TYPES(front.scalar_type(), "muster_head", [&] {
    const scalar_t* numbers = here.data_ptr<scalar_t>();
    for (size_t i = 0; i < head_.size(); ++i) head_[i] = static_cast<double>(numbers[i]);
    for (size_t p = 0; p < used_.size(); ++p) used_[p] = numbers[head_.size() + p] > 0;
  });
  send_late();
  std::fill(missed_.begin(), missed_.end(), false);
  if (!prediction_) return;
  prediction_->note(used_);
  take_route();
}

void Reducer::send_late() {
  std::vector<bool> late(ready_.size() + 1, false);
  bool any = false;
  for (size_t p = 0; p < ready_.size(); ++p) {
    if (route_->travels[p]) continue;
    late[p] = used_[p];
    any |= used_[p];
    // Of a step before it may have been used.
    if (!used_[p] && !keeps_) views_[p].zero_();
    if (used_[p] && !ready_[p]) fill(p);
  }
  if (!any) return;
  const std::vector<plan::Bucket> parts =
      plan::used_parts(flat_, buckets_, late, std::numeric_limits<int>::max());
  for (size_t part = 0; part < parts.size(); ++part) launch(parts, part);
  await_all();
}

void Reducer::await_all() {
  plan::ActivityRecord& activity = plan::this_activity();
  for (Launched& launched : works_) {
    activity.set_bucket(static_cast<int>(launched.bucket) + 1,
                        static_cast<int>(launched.buckets->size()));
    try {
      launched.work.wait();
    } catch (const Error& error) {
      throw Error(error.kind(),
                  fmt::format("{}, in the reduction of {}", error.message(), describe(launched)),
                  error.hint());
    }
    if (launched.narrow.defined()) launched.gradients.copy_(launched.narrow);
    if (launched.gradients.defined()) divide(launched.gradients);
  }
  activity.set_bucket(0, 0);
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
    const std::vector<int64_t>& parameters = (*launched.buckets)[launched.bucket].parameters;
    const auto tensors = std::ranges::count_if(
        parameters, [&](int64_t p) { return p < static_cast<int64_t>(ready_.size()); });
    recorder_->add(SpanRecorder::kReductions,
                   fmt::format("bucket {} of {}", launched.bucket + 1, launched.buckets->size()),
                   begin, end,
                   {{"bytes", launched.bytes},
                    {"tensors", tensors},
                    {"queued_ns", (begin - launched.begun).count()}});
    before = end;
  }
}

std::string Reducer::describe(const Launched& launched) const {
  const auto& all = layout_.parameters;
  std::vector<std::string> names;
  for (const int64_t p : (*launched.buckets)[launched.bucket].parameters) {
    if (p < static_cast<int64_t>(all.size())) names.push_back(all[static_cast<size_t>(p)].name);
  }
  const std::string number =
      fmt::format("bucket {} of {}", launched.bucket + 1, launched.buckets->size());
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
  observed_.clear();
  for (int64_t i = 0; i < order.numel() && numbers[i] >= 0; ++i) observed_.push_back(numbers[i]);
  order_is_shared_ = true;
  routes_.clear();
  take_route();
}

}  // namespace muster::inline v0_1::distribute
