// What a Model is made of. Thread safety: as Model.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/distribute/elastic_run.h"
#include "muster/keras/internal/frozen_layers.h"
#include "muster/keras/internal/objective.h"
#include "muster/keras/model.h"
#include "muster/loop/scope.h"
#include "muster/loop/session.h"
#include "muster/tensor/batch.h"

namespace muster::inline v0_1::keras {

// What a step or an evaluation of one batch gives, by replica of this process.
struct BatchResult {
  double loss = 0;  // over all replicas
  int64_t rows = 0;
  std::deque<std::vector<Metric>> metrics{};
  bool updated = true;  // false: the batch waits for others of one update
};

struct Model::Impl {
  Impl(std::optional<Layer> of_layer, Model::Function of_function, ModelOptions of_options);

  // What compile() made.
  struct Compiled {
    CompileOptions options{};
    internal::Objective objective;
    optim::Optimizer base;       // as compile() was given it
    optim::Optimizer optimizer;  // with the adjustable rate
    std::shared_ptr<std::atomic<double>> rate_factor{};
  };

  // The replicas, which come together when they are first wanted.
  const distribute::Session& session();
  distribute::Scope scope() {
    bring_weights();
    return session().scope();
  }
  // A folder of the run, in which people look for it. On servers the run is not this process's.
  void show_in(const std::string& folder) {
    if (!served_) session().show_in(folder);
  }
  const distribute::Strategy& strategy() const { return *strategy_; }
  bool all_replicas_are_here(const distribute::Scope& scope) const;
  // As the program gave it.
  const distribute::StrategyPtr& given_strategy() const { return given_; }
  // Whether fit() trains on parameter servers. The weights are there while it does. The chief alone
  // has them after it, and all else is its own business: strategy() is its one device.
  bool served() const { return served_; }
  // A worker or a server then: it has no part in what is not fit().
  bool bystander() const { return served_ && !chief_; }
  // Whether the workers of the cluster may change. Then fit() brings them together, and each
  // process computes what comes before it by itself.
  bool elastic() { return elastic_run() != nullptr; }
  // In an elastic run, before fit(): joins the others with the weights that are there; `call` as in
  // ElasticSession. Nothing where this process has joined them, and in other runs.
  void join_workers(const std::string& call);
  // What the program's cluster says; of workers that have not joined too.
  bool is_chief();
  // Throws InvalidArgument that names `verb` where the workers come together in fit() only.
  void require_joined(const char* verb);
  // The replicas are others, which have no variables yet.
  void note_other_replicas() { built = false; }
  // None of them has trained.
  void forget_training() { trained_ = false; }
  // Updates so far; 0 before the replicas came together.
  int64_t step() const {
    if (elsewhere) return elsewhere->step;
    return session_ == nullptr ? 0 : session_->scope().step();
  }

  // Throws InvalidArgument that names `verb` where compile() was not called.
  const Compiled& compiled_for(const char* verb) const;
  // The outputs for a batch, in the context of the replica.
  std::vector<Tensor> outputs_of(const Features& features) const;
  // Makes the variables where they are not there, by features of zero rows.
  void build(const std::optional<Element>& features);
  // Throws InvalidArgument that names `verb` where there are no weights yet.
  void require_built(const char* verb);
  // Throws InvalidArgument where one of the frozen layers is not in the model, which has its
  // weights.
  void require_frozen_layers(const internal::FrozenLayers& frozen);
  // Before a step: lets the replicas begin again where other variables train now, or the optimizer
  // is another one.
  void prepare_to_train();
  // What trains now: the optimizer, without what is frozen.
  optim::Optimizer training_optimizer() const;

  // They are called by all processes together, inside of a scope.
  BatchResult train(const distribute::PerReplica<Batch>& batch,
                    const std::vector<double>& class_weight);
  // Makes what the first step makes, by a batch of zero rows; the values are those to continue
  // from.
  void build_to_train(const Batch& no_rows);
  BatchResult test(const distribute::PerReplica<Batch>& batch);
  std::deque<std::vector<Tensor>> predict(const distribute::PerReplica<Batch>& batch) const;
  Logs evaluate(const Dataset& data, const EvaluateOptions& options);
  // One batch of this process, its rows divided between the replicas here.
  distribute::PerReplica<Batch> divided(const Batch& batch);

  // Gives variables the values that the chief has for them.
  void assign_from_chief(const std::map<std::string, Tensor>& values);

  // Data without end cannot be read to its end. Throws InvalidArgument that names `field`.
  static void check_ends(const Dataset& data, const std::optional<int64_t>& steps, const char* what,
                         const char* field);

  ModelOptions options;
  std::optional<Layer> layer;     // as compile() wants it computed
  std::optional<Layer> original;  // as it was given
  Model::Function function;
  std::vector<std::string> input_names, output_names;
  std::optional<Compiled> compiled;
  int64_t fits = 0;  // calls of fit()
  // Which values of each metric are better, by its name in Logs; known from the first batch on.
  std::map<std::string, Better> better;
  // The name of the backups that fit() makes by itself: that of the model, with a number where the
  // program has trained another one of this name.
  const std::string& backup_name();
  bool has_trained() const { return trained_; }
  // From the next step on something else trains, or otherwise; the slots of the optimizer are
  // dropped or kept.
  void change(bool drop_slots) {
    changed_ = true;
    drop_slots_ = drop_slots_ || drop_slots;
    if (drop_slots) slots_.clear();
  }
  // The replicas begin again with this state; on a cluster the chief's counts.
  void begin_again(const Checkpoint& state);
  // Weights, slots and step, as begin_again() takes them. With `copy` the chief has what that
  // returns, and others have no tensors.
  Checkpoint state(const CopyOfState& copy = {});
  // The rows it was first called on, without examples: who begins again makes the weights by them.
  void note_rows(const Features& features);
  // What it was first called on, without examples; nothing before.
  const std::optional<Element>& first_rows() const { return no_rows_; }
  // The inputs of a layer: those that were given, else as its first batch was; empty if they are
  // unknown, and for a function.
  std::vector<SymbolicTensor> known_inputs() const;
  // Throws InvalidArgument that names `verb` while fit() trains on servers.
  void refuse_while_served(const char* verb) const;

  // While fit() trains on servers, on the chief: where they are.
  struct Elsewhere {
    int64_t step = 0;                     // updates that were told so far
    bool changed = true;                  // since the weights were brought here
    std::function<Checkpoint()> state{};  // brings them
  };
  std::optional<Elsewhere> elsewhere;

  std::shared_ptr<const internal::FrozenLayers> frozen;  // nullptr: none
  bool stop = false;                                     // stop_training() was called
  bool built = false;                                    // the variables are there

 private:
  distribute::StrategyPtr strategy_;
  distribute::StrategyPtr given_;
  const std::shared_ptr<distribute::ElasticRun>& elastic_run();
  distribute::ScopeOptions scope_options();
  bool served_ = false, chief_ = true;
  bool knows_run_ = false, joined_ = false;
  std::shared_ptr<distribute::ElasticRun> elastic_;  // as elastic_run() says
  std::unique_ptr<distribute::Session> session_;
  // The model gets the weights that servers have now.
  void bring_weights();
  std::map<std::string, Tensor> slots_;  // that wait for the first step of a session

  std::optional<Element> no_rows_;
  std::optional<std::string> backup_name_;
  int64_t accumulate_steps_ = 1;  // of the session
  bool trained_ = false;          // in this session
  bool changed_ = false;          // something else trains since, or otherwise
  bool drop_slots_ = false;       // compile() was called since
};

namespace internal {
struct ModelAccess {
  static Model::Impl& impl(const Model& model) { return *model.impl_; }
};
}  // namespace internal

}  // namespace muster::inline v0_1::keras
