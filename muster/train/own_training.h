// Notices a program that trains by itself where Muster makes the steps: a backward() and an
// optimizer of LibTorch inside of a function that every replica calls. Each replica would then
// train a model of its own, on its part of the data. Thread safety: belongs to the thread it was
// made on.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/distribute/replica.h"
#include "muster/tensor/batch.h"

namespace muster::inline v0_1 {

// While it lives, counts the gradients that a backward() of this thread leaves in tensors, on
// whichever thread LibTorch makes them. If there are several, the newest one counts. The results of
// torch::autograd::grad() are not left in tensors.
class BackwardWatch {
 public:
  // With `leaves` it also notes the tensors that require a gradient and are used in an operation,
  // which costs each operation a microsecond.
  explicit BackwardWatch(bool leaves);
  ~BackwardWatch();
  BackwardWatch(const BackwardWatch&) = delete;
  BackwardWatch& operator=(const BackwardWatch&) = delete;

  // How many there were.
  int64_t accumulated() const;
  // The leaves that still exist, in the order of their first use.
  std::vector<Tensor> leaves() const;

  // The counters; for the callbacks of LibTorch.
  struct State;

 private:
  std::unique_ptr<State> state_;
  std::vector<uint64_t> handles_;
};

// Watches one function of the program over the steps of a run.
class OwnTraining {
 public:
  // `function`: as errors call it, "the function of run()". `replica` must outlive it.
  OwnTraining(distribute::Replica& replica, std::string function);

  // Makes the watch for the next call of the function.
  std::unique_ptr<BackwardWatch> begin();
  // Called after the call, while `batch` (or nullptr) still lives; `minimizes`: whether it
  // described a step of Muster's. If gradients were left in tensors that outlive the call, replicas
  // in sync compare them, in the first steps that leave any: all of them make this call then.
  // Throws InvalidArgument when they differ, or are one tensor that several replicas train; on
  // parameter servers, when nothing else trains them. Gradients that a program itself sums over all
  // replicas are equal, and pass.
  void check(const BackwardWatch& watch, const Batch* batch, bool minimizes);

 private:
  void compare(const BackwardWatch& watch, const Batch* batch, bool minimizes);

  distribute::Replica& replica_;
  const std::string function_;
  int collect_ = 2;   // calls in which leaves are noted
  int compared_ = 0;  // calls whose leaves were compared
  bool collects_ = false;
};

// Advice for errors and warnings of a program that trains by itself.
std::string instead_of_own_training();
// The same if LibTorch's message says that a backward() had no graph, as while a model is built.
std::optional<std::string> hint_of_own_backward(const std::string& said);

}  // namespace muster::inline v0_1
