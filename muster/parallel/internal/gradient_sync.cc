#include "muster/parallel/internal/gradient_sync.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/strings.h"
#include "muster/distribute/bucket_choice.h"
#include "muster/parallel/internal/norm_sync.h"
#include "muster/parallel/internal/share_value.h"
#include "muster/parallel/sync_batch_norm.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/weight_dtype.h"

namespace muster::inline v0_1::internal {
namespace {

std::string describe(const std::pair<std::string, Tensor>& weight) {
  return fmt::format("{} {}", weight.first, muster::describe(weight.second));
}

// The same, with its order in memory where that is not the usual one: gradients travel in it.
std::string describe_memory(const std::pair<std::string, Tensor>& weight) {
  const std::string plain = describe(weight);
  if (weight.second.is_contiguous()) return plain;
  return fmt::format("{} with strides [{}]", plain, fmt::join(weight.second.strides(), ", "));
}

// The numbers that travel with the gradients: whether this worker has data.
constexpr int kHeadNumbers = 1;

// On a GPU: how many backwards there are from one comparison of weights to the next.
constexpr int64_t kSampleEvery = 16;

}  // namespace

struct GradientSync::Hook : torch::autograd::FunctionPostHook {
  Hook(GradientSync* sync, size_t parameter) : sync(sync), parameter(parameter) {}
  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    sync->on_gradient(parameter);
    return outputs;
  }
  GradientSync* sync;
  size_t parameter;
};

// Kept: a hook lives as long as its accumulator. They stand before those of the reducer.
struct GradientSync::Hooks {
  Hooks(GradientSync* sync, const Weights& weights) : sync(sync) {
    for (size_t p = 0; p < weights.size(); ++p) {
      auto node = torch::autograd::impl::grad_accumulator(weights[p].second);
      node->add_post_hook(std::make_unique<Hook>(sync, p));
      nodes.push_back(std::move(node));
    }
  }
  ~Hooks() {
    for (const auto& node : nodes) {
      std::erase_if(node->post_hooks(), [this](const auto& hook) {
        const auto* ours = dynamic_cast<const Hook*>(hook.get());
        return ours != nullptr && ours->sync == sync;
      });
    }
  }
  Hooks(const Hooks&) = delete;
  Hooks& operator=(const Hooks&) = delete;

  GradientSync* sync;
  std::vector<decltype(torch::autograd::impl::grad_accumulator(std::declval<const Tensor&>()))>
      nodes;
};

GradientSync::GradientSync(distribute::Replica& replica, CallMeeting& meeting, NormSync& norms,
                           std::shared_ptr<torch::nn::Module> module, Options options)
    : replica_(replica),
      meeting_(meeting),
      norms_(norms),
      module_(std::move(module)),
      options_(std::move(options)) {
  Weights weights = trained();
  check(weights);
  if (replica_.communicator() == nullptr) return;
  meeting_.meet(call(CallMeeting::Kind::kParameters));
  compare_with_others(weights);
  share(0);
  build(std::move(weights));
  connect_norms();
}

GradientSync::~GradientSync() {
  if (meeting_.leader == this) meeting_.leader = nullptr;
}

GradientSync::Weights GradientSync::trained() const {
  Weights weights;
  for (const auto& item : module_->named_parameters()) {
    if (item.value().requires_grad()) weights.emplace_back(item.key(), item.value());
  }
  return weights;
}

bool GradientSync::unchanged() const {
  size_t i = 0;
  for (const Tensor& parameter : module_->parameters()) {
    const void* const known = parameter.requires_grad() ? parameter.unsafeGetTensorImpl() : nullptr;
    if (i == registered_.size() || registered_[i++] != std::pair(known, parameter.scalar_type()))
      return false;
    if (known != nullptr && parameter.device() != options_.device) return false;
  }
  return i == registered_.size();
}

void GradientSync::check(const Weights& weights) const {
  if (weights.empty()) {
    throw invalid_argument(
        fmt::format("the module \"{}\" has no parameters that require a gradient", options_.name),
        "register its layers with register_module(), and wrap it after they are made");
  }
  for (const auto& [name, weight] : weights) {
    if (!is_weight_dtype(weight.scalar_type())) {
      throw invalid_argument(
          fmt::format("not supported: training the parameter {} of the module \"{}\"",
                      describe({name, weight}), options_.name),
          "keep parameters in " + weight_dtype_names() + ", and convert where they are used");
    }
    if (weight.device() != options_.device) {
      throw invalid_argument(
          fmt::format("the parameter {} of the module \"{}\" is on {}, the Cluster's device is {}",
                      name, options_.name, weight.device().str(), options_.device.str()),
          "call module->to(cluster.device()) before data_parallel()");
    }
  }
}

void GradientSync::compare_with_others(const Weights& weights) const {
  std::vector<std::string> lines;
  for (const auto& weight : weights) lines.push_back(describe_memory(weight));
  const std::vector<std::string> all = replica_.group().gather_text("module", join(lines, "\n"));
  // All replicas look at the same pair: the chief's module and the first that differs from it.
  const auto other =
      std::ranges::find_if(all, [&](const std::string& each) { return each != all.front(); });
  if (other == all.end()) return;
  const std::vector<std::string> chiefs = split(all.front(), '\n'), theirs = split(*other, '\n');
  size_t i = 0;
  while (i < chiefs.size() && i < theirs.size() && chiefs[i] == theirs[i]) ++i;
  const auto of = [&](const std::vector<std::string>& known) {
    return i < known.size() ? known[i] : std::string("missing");
  };
  meeting_.refuse_together(
      fmt::format("workers have different modules \"{}\": parameter {} is {} on the chief, {} on "
                  "replica {}",
                  options_.name, i + 1, of(chiefs), of(theirs), other - all.begin()),
      "build the module from the same options on every worker");
}

void GradientSync::build(Weights weights) {
  reducer_.reset();
  hooks_.reset();
  weights_ = std::move(weights);
  registered_.clear();
  for (const Tensor& parameter : module_->parameters()) {
    registered_.emplace_back(parameter.requires_grad() ? parameter.unsafeGetTensorImpl() : nullptr,
                             parameter.scalar_type());
  }
  watch_.clear();
  hooks_ = std::make_unique<Hooks>(this, weights_);
  auto layout = distribute::GradientLayout::of(weights_);
  const auto buckets = distribute::choose_buckets(*replica_.communicator(), layout.bytes(),
                                                  options_.bytes_per_pack, replica_.is_chief());
  reducer_ = std::make_unique<distribute::Reducer>(*replica_.communicator(), std::move(layout),
                                                   kHeadNumbers, buckets, options_.wire_dtype,
                                                   /*means=*/true);
}

void GradientSync::connect_norms() {
  if (std::exchange(norms_made_, SyncBatchNormImpl::made()) == SyncBatchNormImpl::made()) return;
  norms_.connect(*module_, options_.name);
}

CallMeeting::Call GradientSync::call(CallMeeting::Kind kind) const {
  return {
      .kind = kind,
      .number = options_.number,
      .text = fmt::format("{} of \"{}\"",
                          kind == CallMeeting::Kind::kBackward ? "a backward()" : "the parameters",
                          options_.name)};
}

CallMeeting::Call GradientSync::backward_call() const {
  CallMeeting::Call made = call(CallMeeting::Kind::kBackward);
  made.forwards = forwards_;
  // All workers have counted the same. To read from a GPU costs a wait for it.
  const int64_t number = backwards_ + joined_backwards_;
  const int64_t every = options_.device.is_cpu() ? 1 : kSampleEvery;
  if (number % every == 0) made.sample = sample_weights(weights_, number / every);
  return made;
}

void GradientSync::share(int root) {
  for (const Tensor& value : module_->parameters()) share_value(replica_, value, root);
  for (const Tensor& value : module_->buffers()) share_value(replica_, value, root);
}

void GradientSync::average_buffers() {
  torch::NoGradGuard no_grad;
  for (const Tensor& buffer : module_->buffers()) {
    if (buffer.is_floating_point()) {
      Tensor(buffer).copy_(replica_.exchange().reduce(ReduceOp::kMean, buffer));
    } else {
      share_value(replica_, buffer, 0);
    }
  }
}

void GradientSync::prepare() {
  if (replica_.communicator() == nullptr) return;
  if (doing_ != Doing::kNothing) {
    throw invalid_argument(
        fmt::format("a backward() through \"{}\" ended by an exception, and the other workers "
                    "still wait for its gradients",
                    options_.name),
        "end this program; started again, all workers continue from their last checkpoint");
  }
  check_no_step();
  if (!unchanged()) {
    Weights weights = trained();
    check(weights);
    meeting_.meet(call(CallMeeting::Kind::kParameters));
    compare_with_others(weights);
    log::info(fmt::format("\"{}\" trains {} parameters from now on, {} before", options_.name,
                          weights.size(), weights_.size()));
    build(std::move(weights));
    share(0);
  }
  connect_norms();
  if (!options_.broadcast_buffers || !module_->is_training()) return;
  meeting_.meet({.text = fmt::format("the buffers of \"{}\"", options_.name)});
  for (const Tensor& buffer : module_->buffers()) share_value(replica_, buffer, 0);
}

void GradientSync::count_forward() {
  if (!at::GradMode::is_enabled() || !module_->is_training()) return;
  if (pauses_ == 0) ++forwards_;
  options_.view->begin_forward(pauses_ > 0);
}

void GradientSync::check_no_step() const {
  if (!watch_.changed()) return;
  throw invalid_argument(
      fmt::format("the parameters of \"{}\" were changed, by an optimizer's step() say, after a "
                  "backward() under no_sync() and before the next one without it: the gradients "
                  "were not averaged yet, and workers are no longer equal",
                  options_.name),
      "leave the scope of no_sync() before the last backward() of each step()");
}

void GradientSync::on_gradient(size_t parameter) {
  if (pauses_ > 0) forwards_ = 0;
  if (pauses_ > 0) watch_.note(parameter, weights_[parameter].second);
  if (pauses_ > 0 || doing_ != Doing::kNothing) return;
  if (at::GradMode::is_enabled()) {
    throw invalid_argument(
        fmt::format("not supported: backward() with create_graph through the module \"{}\"",
                    options_.name),
        "compute the gradient of a penalty by torch::autograd::grad(), with create_graph there, "
        "and call backward() of the loss without it");
  }
  if (meeting_.leader == nullptr && norms_.size() == 0) {
    meeting_.leader = this;
    doing_ = Doing::kLeads;
    meeting_.begin(backward_call());
  } else {
    doing_ = Doing::kFollows;
  }
  reducer_->begin(/*first=*/true, /*last=*/doing_ == Doing::kLeads);
  torch::autograd::Engine::get_default_engine().queue_callback([self = weak_from_this()] {
    if (const auto sync = self.lock()) sync->finish_backward();
  });
}

void GradientSync::finish_backward() {
  const Doing done = std::exchange(doing_, Doing::kNothing);
  if (meeting_.leader == this) meeting_.leader = nullptr;
  torch::NoGradGuard no_grad;
  const plan::OnActivity on(options_.view->record());
  options_.view->record().enter(plan::Activity::kCommunication);
  if (done == Doing::kFollows) meeting_.begin(backward_call());
  // Before the sums are waited for: another worker that is elsewhere does not send its part.
  const CallMeeting::Met met = meeting_.end();
  reducer_->take_earlier();
  replica_.group().explained([&] { reducer_->finish({1}, met.active); });
  spread_gradients();
  watch_.clear();
  ++backwards_;
  forwards_ = 0;
  options_.view->end_backward();
}

void GradientSync::spread_gradients() {
  // Optimizers detach gradients in place, which no view allows: detach() makes none.
  for (size_t p = 0; p < weights_.size(); ++p) {
    if (reducer_->used()[p]) weights_[p].second.mutable_grad() = reducer_->gradient(p).detach();
  }
}

void GradientSync::join_backward() {
  reducer_->begin();
  replica_.group().explained([&] { reducer_->finish({0}); });
  ++joined_backwards_;
}

}  // namespace muster::inline v0_1::internal
