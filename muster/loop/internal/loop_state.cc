// The state of a loop as values that its program reads, writes, and begins again with.
#include <fmt/format.h>

#include <utility>

#include "muster/base/bytes.h"
#include "muster/base/crc32c.h"
#include "muster/base/error.h"
#include "muster/base/unknown_name.h"
#include "muster/distribute/agree.h"
#include "muster/distribute/elastic_run.h"
#include "muster/loop/internal/data_progress.h"
#include "muster/loop/internal/loop.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::distribute {
namespace {

// A digest of the names and the values, to compare them with those of others.
std::string digest_of(const std::map<std::string, Tensor>& values) {
  uint32_t digest = 0;
  for (const auto& [name, value] : values) {
    digest = extend_crc32c(digest, bytes_of(name));
    if (!value.defined()) continue;
    const Tensor here = value.detach().to(at::kCPU).contiguous();
    digest = extend_crc32c(digest, {static_cast<const std::byte*>(here.data_ptr()), here.nbytes()});
  }
  return fmt::format("of {} variables, {:08x}", values.size(), digest);
}

}  // namespace

void Loop::assign(const std::map<std::string, Tensor>& values) {
  const std::string digest = digest_of(values);
  each("Scope::assign()", [&](Replica& replica, size_t local) {
    const torch::NoGradGuard no_grad;
    check_same(replica, {{"what Scope::assign() was given", digest}});
    for (const auto& [name, value] : values) {
      const Variable* variable = replica.variables().find(name);
      if (variable == nullptr) {
        std::vector<std::string> names;
        for (const auto& known : replica.variables().variables()) names.push_back(known->name());
        throw unknown_name("the model", "variable", name, names);
      }
      const Tensor here = variable->value().detach();
      if (!value.defined() || value.sizes() != here.sizes()) {
        throw invalid_argument(
            fmt::format("assign: the variable {} was given {}", variable->spec().describe(),
                        value.defined() ? describe(value) : "no tensor"),
            "a value has the shape of its variable");
      }
      Tensor(here).copy_(value);
      replica.variables().note_assigned(*variable);
    }
    // They were written on purpose, on all replicas alike.
    if (replicas_[local]->engine.built()) replica.state().note_versions();
  });
}

Tensor Loop::value(const Variable& variable) { return variable.value().detach().clone(); }

Checkpoint Loop::state(const CopyOfState& copy) {
  Checkpoint state{.global_step = step_};
  each("Scope::state()", [&](Replica& replica, size_t local) {
    std::map<std::string, Tensor> tensors;
    // A state that was restored and not trained since has not been used either.
    if (restored_ && !replicas_[local]->engine.built() && replica.place().in_sync)
      (void)restore_variables(*replicas_[local]);
    if (replicas_[local]->engine.built()) {
      tensors = replica.state().gather();
    } else {
      for (const auto& variable : replica.variables().variables())
        tensors[variable->name()] = variable->value().detach();
    }
    if (local != 0) return;
    if (const auto& cut = replica.state().cut()) state.global_step = cut->step;
    if (copy) {
      if (replica.is_chief()) state.tensors = copy(tensors);
      return;
    }
    for (const auto& [name, tensor] : tensors) state.tensors[name] = tensor.to(at::kCPU).clone();
  });
  return state;
}

void Loop::begin_again(const Checkpoint& state, int64_t accumulate_steps) {
  for (const auto& known : data_) {
    if (const auto progress = known.lock(); progress && progress->current) {
      throw invalid_argument(
          "the replicas cannot begin again while a data set of distribute() is being read",
          "read it to its end, or let it go, before the model is compiled again");
    }
  }
  each("Model::compile()", [&](Replica& replica, size_t local) {
    check_same(replica, {{"the step to begin again at", std::to_string(state.global_step)}});
    replicas_[local]->engine.finish();
  });
  options_.accumulate_steps = accumulate_steps;
  if (elastic()) {
    memories_.assign(replicas_.size(), {.chief = memories_.front().chief});
    if (first().is_chief()) {
      memories_.front().epoch = start_.elastic->epoch();
      memories_.front().state = std::make_shared<Checkpoint>(state);
      memories_.front().whole = false;
    }
    meeting_ = "Model::compile()";
    return join_group();
  }
  replicas_.clear();
  start_replicas();
  restored_ = true;
  step_ = state.global_step;
  stop_ = false;
  each("Model::compile()", [&](Replica& replica, size_t local) {
    check_same(replica, {{"accumulate_steps", std::to_string(accumulate_steps)}});
    replicas_[local]->engine.continue_from(state, "the weights in memory");
  });
}

void Loop::check_alike(const Settings& settings) {
  each("Model::fit()", [&](Replica& replica, size_t) { check_same(replica, settings); });
}

}  // namespace muster::inline v0_1::distribute
