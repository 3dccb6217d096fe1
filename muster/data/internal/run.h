// What the streams of one iterator share. Thread safety: any thread, except for set_seed() and
// set_interrupt(), which are called while no stream reads.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "muster/base/random.h"
#include "muster/data/internal/clocks.h"
#include "muster/data/internal/cores.h"
#include "muster/data/internal/left_out.h"
#include "muster/data/iterator.h"

namespace muster::inline v0_1::data::internal {

// What the streams of one iterator share; a branch of the pipeline (an input of zip(), a data set
// that flat_map() opens) has one of its own, so that it draws other numbers.
class Run {
 public:
  // `cores`: how many calls may run at once over all maps with num_parallel_calls = kAutotune.
  Run(uint64_t seed, const Sharding& sharding, const void* sharded_node, int cores)
      : sharding(sharding), sharded_node(sharded_node), seed_(seed), cores_(cores) {}
  // A branch of `outer`, which must outlive it. `scope`: of a pipeline made while it runs, the
  // stage that makes it; its stages are timed together with those of others made there.
  Run(const Run& outer, RandomKey branch, std::string scope = "")
      : outer_(&outer), branch_(branch), scope_(outer.scope_ + scope), cores_(0) {}
  // A part of `outer`, which must outlive it, that draws from a seed of its own.
  Run(const Run& outer, uint64_t own_seed)
      : sharding(outer.sharding),
        sharded_node(outer.sharded_node),
        outer_(&outer),
        own_seed_(own_seed),
        scope_(outer.scope_),
        cores_(0) {}
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  uint64_t seed() const {
    if (own_seed_) return *own_seed_;
    if (outer_ == nullptr) return seed_;
    return derive_key(outer_->seed(), {branch_.key, branch_.stream}).key;
  }
  void set_seed(uint64_t seed) { seed_ = seed; }
  // The iterator is going away: long loops end.
  void stop() { stopping_ = true; }
  // The last prefetch() of the pipeline, and what ends a wait for it; empty: nothing does.
  struct Interrupt {
    const void* prefetch = nullptr;  // its node
    std::shared_ptr<const std::function<bool()>> asked{};
  };
  void set_interrupt(Interrupt interrupt) { interrupt_ = std::move(interrupt); }
  std::shared_ptr<const std::function<bool()>> interrupt_of(const void* prefetch) const {
    return prefetch == interrupt_.prefetch ? interrupt_.asked : nullptr;
  }
  bool stopping() const {
    return outer_ != nullptr ? outer_->stopping() : stopping_.load(std::memory_order_relaxed);
  }
  // The times that a stage of this pipeline adds to.
  Clocks& clocks() const { return outer_ != nullptr ? outer_->clocks() : clocks_; }
  // What ignore_errors() of this pipeline leave out.
  LeftOut& left_out() const { return outer_ != nullptr ? outer_->left_out() : left_out_; }
  const std::string& scope() const { return scope_; }
  Cores& cores() const { return outer_ != nullptr ? outer_->cores() : cores_; }

  const Sharding sharding;
  const void* const sharded_node =
      nullptr;  // the batch whose rows are divided between the replicas

 private:
  const Run* const outer_ = nullptr;
  const RandomKey branch_;
  const std::optional<uint64_t> own_seed_;
  const std::string scope_;
  std::atomic<uint64_t> seed_{0};  // a stage that is done with its input may leave threads there
  std::atomic<bool> stopping_{false};
  Interrupt interrupt_;  // of an iterator's own Run
  mutable Clocks clocks_;
  mutable Cores cores_;
  mutable LeftOut left_out_;
};

}  // namespace muster::inline v0_1::data::internal
