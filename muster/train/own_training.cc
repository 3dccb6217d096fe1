#include "muster/train/own_training.h"

#include <ATen/record_function.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>
#include <utility>

#include "muster/base/crc32c.h"
#include "muster/base/error.h"
#include "muster/base/strings.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {

struct BackwardWatch::State {
  using Weak = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

  std::mutex mutex{};  // threads of LibTorch that make gradients of a device count too
  int64_t accumulated = 0;
  std::vector<Weak> leaves{};
  std::set<const c10::TensorImpl*> known{};
};

namespace {

// The newest last; they may end in any order.
thread_local std::vector<BackwardWatch::State*> watching;

// Gradients of a device are made on threads of LibTorch, which have the callbacks of the thread
// that called backward() and not its variables: all watches count those.
std::mutex all_mutex;
std::set<BackwardWatch::State*> all_watching;

void count_one(BackwardWatch::State& state) {
  const std::lock_guard lock(state.mutex);
  ++state.accumulated;
}

std::unique_ptr<at::ObserverContext> see_backward(const at::RecordFunction& call) {
  if (std::strcmp(call.name(), "torch::autograd::AccumulateGrad") != 0) return nullptr;
  if (!watching.empty()) {
    count_one(*watching.back());
    return nullptr;
  }
  const std::lock_guard lock(all_mutex);
  for (BackwardWatch::State* state : all_watching) count_one(*state);
  return nullptr;
}

void note_leaf(const Tensor& tensor) {
  if (!tensor.defined() || !tensor.requires_grad() || !tensor.is_leaf()) return;
  BackwardWatch::State& state = *watching.back();
  const std::lock_guard lock(state.mutex);
  if (state.known.insert(tensor.unsafeGetTensorImpl()).second)
    state.leaves.emplace_back(tensor.getIntrusivePtr());
}

std::unique_ptr<at::ObserverContext> see_operation(const at::RecordFunction& call) {
  if (watching.empty()) return nullptr;
  for (const c10::IValue& input : call.inputs()) {
    if (input.isTensor()) {
      note_leaf(input.toTensor());
    } else if (input.isTensorList()) {
      for (const Tensor& tensor : input.toTensorVector()) note_leaf(tensor);
    }
  }
  return nullptr;
}

std::string describe_all(const std::vector<Tensor>& tensors) {
  constexpr size_t kMost = 4;
  std::vector<std::string> each;
  for (size_t i = 0; i < std::min(kMost, tensors.size()); ++i)
    each.push_back(muster::describe(tensors[i]));
  if (tensors.size() > kMost) each.push_back(fmt::format("{} more", tensors.size() - kMost));
  return join(each, ", ");
}

int64_t digest_of(int64_t digest, const Tensor& tensor) {
  if (!tensor.defined()) return digest;
  const Tensor here = tensor.detach().to(at::kCPU).contiguous();
  const Bytes bytes(static_cast<const std::byte*>(here.data_ptr()), here.nbytes());
  return extend_crc32c(static_cast<uint32_t>(digest), bytes);
}

// The facts that a replica sends: numbers about its tensors by which others see whether theirs are
// the same.
enum Fact { kTensors, kValues, kGradients, kProcess, kAddress, kFacts };

}  // namespace

BackwardWatch::BackwardWatch(bool leaves) : state_(std::make_unique<State>()) {
  watching.push_back(state_.get());
  {
    const std::lock_guard lock(all_mutex);
    all_watching.insert(state_.get());
  }
  handles_.push_back(at::addThreadLocalCallback(
      at::RecordFunctionCallback(&see_backward).scopes({at::RecordScope::BACKWARD_FUNCTION})));
  if (!leaves) return;
  handles_.push_back(at::addThreadLocalCallback(at::RecordFunctionCallback(&see_operation)
                                                    .needsInputs(true)
                                                    .scopes({at::RecordScope::FUNCTION})));
}

BackwardWatch::~BackwardWatch() {
  for (const uint64_t handle : handles_) at::removeCallback(handle);
  std::erase(watching, state_.get());
  const std::lock_guard lock(all_mutex);
  all_watching.erase(state_.get());
}

int64_t BackwardWatch::accumulated() const {
  const std::lock_guard lock(state_->mutex);
  return state_->accumulated;
}

std::vector<Tensor> BackwardWatch::leaves() const {
  const std::lock_guard lock(state_->mutex);
  std::vector<Tensor> alive;
  for (const State::Weak& weak : state_->leaves) {
    if (auto pointer = weak.lock()) alive.emplace_back(std::move(pointer));
  }
  return alive;
}

OwnTraining::OwnTraining(distribute::Replica& replica, std::string function)
    : replica_(replica), function_(std::move(function)) {}

std::unique_ptr<BackwardWatch> OwnTraining::begin() {
  const bool alone = replica_.place().replicas() == 1 && replica_.place().in_sync;
  collects_ = collect_ > 0 && !alone;
  return std::make_unique<BackwardWatch>(collects_);
}

void OwnTraining::check(const BackwardWatch& watch, const Batch* batch, bool minimizes) {
  if (collects_) --collect_;
  if (watch.accumulated() == 0) return;
  constexpr int kCompared = 2;
  if (collects_ && compared_ < kCompared) {
    ++compared_;
    compare(watch, batch, minimizes);
  }
  // A call that first happens late is looked at the next time.
  collect_ = compared_ < kCompared ? std::max(collect_, 1) : 0;
}

void OwnTraining::compare(const BackwardWatch& watch, const Batch* batch, bool minimizes) {
  std::set<const c10::TensorImpl*> variables, given;
  for (const auto& variable : replica_.variables().variables()) {
    variables.insert(variable->value().unsafeGetTensorImpl());
    for (const auto& use : variable->row_uses()) given.insert(use.rows.unsafeGetTensorImpl());
  }
  if (batch != nullptr) {
    for (const Element& part : {batch->features.element(), batch->labels.element()}) {
      for (const Value& value : part.values()) {
        if (value.is_tensor()) given.insert(value.tensor().unsafeGetTensorImpl());
      }
    }
  }
  std::vector<Tensor> trained;
  int64_t values = 0, gradients = 0, address = 0;
  for (const Tensor& leaf : watch.leaves()) {
    if (given.contains(leaf.unsafeGetTensorImpl())) continue;
    const bool own = variables.contains(leaf.unsafeGetTensorImpl());
    // Muster's step drops the gradients it finds in variables: only their values count.
    const bool by_muster = own && minimizes;
    if (!by_muster) {
      trained.push_back(leaf);
      gradients = digest_of(gradients, leaf.grad());
    }
    if (!own && address == 0)
      address = static_cast<int64_t>(reinterpret_cast<intptr_t>(leaf.unsafeGetTensorImpl()));
    values = digest_of(values, leaf);
  }
  const auto refuse = [&](const std::string& why) {
    throw invalid_argument(fmt::format("{} trains {} by its own backward(): {}", function_,
                                       trained.empty() ? "variables" : describe_all(trained), why),
                           instead_of_own_training());
  };
  if (!replica_.place().in_sync) {
    if (!trained.empty()) refuse("each worker would train a different model");
    return;
  }
  const Tensor mine = torch::empty({1, kFacts}, at::kLong);
  int64_t* facts = mine.data_ptr<int64_t>();
  facts[kTensors] = static_cast<int64_t>(trained.size());
  facts[kValues] = values;
  facts[kGradients] = gradients;
  facts[kProcess] = replica_.place().process;
  facts[kAddress] = address;
  const std::vector<Tensor> all = replica_.exchange().gather(mine, 0);
  const auto fact = [&](size_t replica, Fact which) {
    return all[replica].data_ptr<int64_t>()[which];
  };
  for (size_t r = 0; r < all.size(); ++r) {
    for (size_t other = r + 1; other < all.size(); ++other) {
      if (fact(r, kAddress) != 0 && fact(r, kProcess) == fact(other, kProcess) &&
          fact(r, kAddress) == fact(other, kAddress)) {
        refuse(
            fmt::format("replicas {} and {} are threads of one process, and train the same "
                        "tensors at the same time",
                        r, other));
      }
    }
  }
  for (size_t r = 1; r < all.size(); ++r) {
    for (const Fact which : {kTensors, kValues, kGradients}) {
      if (fact(r, which) == fact(0, which)) continue;
      refuse(fmt::format(
          "{} of replicas 0 and {} differ, so each of the {} replicas trains a different model",
          which == kGradients ? "the gradients" : "those", r, all.size()));
    }
  }
}

std::string instead_of_own_training() {
  return "let Muster make the step, which reduces the gradients of all replicas: instead of "
         "backward() and torch::optim call minimize(loss) of an optim::sgd() or another optimizer "
         "of Muster, on layers, or in an Estimator on a torch_module(); for gradients that train "
         "nothing use torch::autograd::grad()";
}

std::optional<std::string> hint_of_own_backward(const std::string& said) {
  if (said.find("does not require grad and does not have a grad_fn") == std::string::npos)
    return std::nullopt;
  return instead_of_own_training();
}

}  // namespace muster::inline v0_1
