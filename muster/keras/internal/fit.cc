#include "muster/keras/internal/fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <typeinfo>
#include <utility>

#include "muster/base/class_name.h"
#include "muster/base/error.h"
#include "muster/base/foreign_error.h"
#include "muster/base/log.h"
#include "muster/keras/callbacks.h"
#include "muster/keras/internal/elastic_fit.h"
#include "muster/keras/internal/served_fit.h"
#include "muster/keras/progbar_logger.h"
#include "muster/loop/replica_context.h"
#include "muster/tensor/element_spec.h"
#include "muster/tensor/libtorch.h"
#include "muster/train/stop_signal.h"

namespace muster::inline v0_1::keras::internal {

using distribute::ReduceOp;
using distribute::ReplicaContext;
using nlohmann::json;

namespace {

// Whether it is one of Muster's own, and calls no function of the program that may look at files.
bool is_own(const Callback& callback) {
  const std::type_info& type = typeid(callback);
  return type == typeid(BackupAndRestore) || type == typeid(CSVLogger) ||
         type == typeid(EarlyStopping) || type == typeid(LearningRateScheduler) ||
         type == typeid(ModelCheckpoint) || type == typeid(ProgbarLogger) ||
         type == typeid(ReduceLROnPlateau) || type == typeid(TensorBoard) ||
         type == typeid(TerminateOnNaN);
}

[[noreturn]] void refuse_on_servers(const std::string& what, const std::string& hint) {
  throw invalid_argument(fmt::format("not supported: {} on parameter servers", what), hint);
}

void check_at_least(const char* field, int64_t value, int64_t least) {
  if (value >= least) return;
  throw invalid_argument(fmt::format("fit: {} is {}; it must be at least {}", field, value, least));
}

}  // namespace

std::unique_ptr<Fit> Fit::make(Model& model, const FitOptions& options, int64_t number) {
  if (ModelAccess::impl(model).served()) return std::make_unique<ServedFit>(model, options, number);
  if (ModelAccess::impl(model).elastic())
    return std::make_unique<ElasticFit>(model, options, number);
  return std::make_unique<Fit>(model, options, number);
}

std::string Fit::call(int64_t number) { return fmt::format("fit() number {}", number + 1); }

Fit::Fit(Model& model, const FitOptions& options, int64_t number)
    : model_(model),
      impl_(ModelAccess::impl(model)),
      options_(options),
      number_(number),
      scope_(impl_.scope()),
      callbacks_(options.callbacks),
      tally_(impl_.compiled->objective.metric_names()),
      first_epoch_(options.initial_epoch) {
  check_at_least("epochs", options_.epochs, 1);
  check_at_least("initial_epoch", options_.initial_epoch, 0);
  check_at_least("validation_freq", options_.validation_freq, 1);
  if (options_.validation_steps) check_at_least("validation_steps", *options_.validation_steps, 1);
  if (options_.initial_epoch >= options_.epochs) {
    throw invalid_argument(
        fmt::format("fit: initial_epoch is {}, epochs is {}: there is nothing to train",
                    options_.initial_epoch, options_.epochs),
        "epochs is the number of the last epoch, and not how many are trained");
  }
  std::set<const Callback*> different;
  std::string backs_up;  // the class that asks for backups
  bool shows_progress = false;
  for (const auto& callback : callbacks_) {
    if (callback == nullptr) {
      throw invalid_argument("fit: a callback is empty",
                             "make it with std::make_shared<EarlyStopping>(...)");
    }
    if (!different.insert(callback.get()).second) {
      throw invalid_argument("fit: one callback is given twice",
                             "make another one of its class with std::make_shared");
    }
    const Callback& asks = *callback;
    const CallbackNeeds needs = asks.needs();
    const std::string name = class_name(typeid(asks));
    shows_progress = shows_progress || needs.shows_progress;
    files_may_be_read_ = files_may_be_read_ || !is_own(asks);
    if (needs.sets_learning_rate && impl_.served()) {
      refuse_on_servers(
          name,
          "servers follow the optimizer by themselves: give it a schedule, or train with "
          "distribute::multi_worker_mirrored()");
    }
    impl_.show_in(needs.live_dir);
    if (!needs.backups) continue;
    if (backups_ != nullptr) {
      throw invalid_argument(
          fmt::format("fit: two callbacks ask for backups, {} and {}", backs_up, name),
          "one is enough");
    }
    backups_ =
        std::make_shared<BackupAndRestore>(needs.backups->backup_dir, needs.backups->options);
    backs_up = name;
  }
  if (!shows_progress) callbacks_.push_back(std::make_shared<ProgbarLogger>(options.verbose));
  if (impl_.served()) check_served();
  if (backups_ == nullptr &&
      (impl_.served() || impl_.elastic() || !impl_.all_replicas_are_here(scope_))) {
    make_own_backups();
  }
}

void Fit::check_served() const {
  if (number_ > 0) {
    refuse_on_servers("a second fit() of a model",
                      "train all epochs in one call; or call save_weights() after it, and "
                      "load_weights() before the fit() of another program");
  }
  if (const int64_t steps = impl_.compiled->options.accumulate_steps; steps > 1)
    refuse_on_servers(fmt::format("accumulate_steps of {}", steps),
                      "leave it at 1, and make batches larger");
}

History Fit::run(const Dataset& data) {
  data_ = data.describe();
  // However it ends, callbacks that live on do not know a model that may not.
  const struct Forget {
    Fit& fit;
    ~Forget() {
      fit.end_backup_after_error();
      try {
        fit.await_callbacks();
      } catch (...) {
        log::warning(current_error().message());
      }
      fit.tell([](Callback& callback) { callback.set_model(nullptr); });
      fit.impl_.elsewhere.reset();
    }
  } forget{*this};
  impl_.stop = false;
  for (bool first = true;; first = false) {
    try {
      if (!(first ? begin(data) : regroup(data))) return {};
      tell([&](Callback& callback) { callback.set_model(&model_); });
      train_epochs(data);
      if (regroups_) continue;
      end_steps();
      settle_backup();
      await_callbacks();
      tell([&](Callback& callback) { callback.on_train_end(logs_); });
      break;
    } catch (const Error& error) {
      if (!goes_on_after(error)) throw;
      log::warning(
          fmt::format("{}; fit() continues, from the memory of its workers", error.message()));
    }
  }
  if (!requested_) end_backups();
  return history_;
}

void Fit::train_epochs(const Dataset& data) {
  Model::Impl::check_ends(data, options_.steps_per_epoch, "fit", "steps_per_epoch");
  steps_ = options_.steps_per_epoch.value_or(data.cardinality());
  FitInfo info{.epochs = options_.epochs, .initial_epoch = first_epoch_, .steps = steps_};
  info.metrics = {"loss"};
  for (const std::string& name : impl_.compiled->objective.metric_names())
    info.metrics.push_back(name);
  if (options_.validation_data) {
    Model::Impl::check_ends(*options_.validation_data, options_.validation_steps,
                            "fit: validation_data", "validation_steps");
    const size_t trained = info.metrics.size();
    for (size_t m = 0; m < trained; ++m) info.metrics.push_back("val_" + info.metrics[m]);
  }
  info.files_may_be_read = on_any_worker(files_may_be_read_);
  tell([&](Callback& callback) { callback.on_train_begin(info); });
  const bool resumes = found_fit_ == number_;
  if (resumes) resume();
  begin_epochs(data, resumes);
  show_last_step();
  for (int64_t epoch = first_epoch_; epoch < options_.epochs && !over_; ++epoch) {
    const bool whole = train_epoch(epoch);
    if (regroups_) return;
    if (step_ == 0) {
      throw invalid_argument("fit: the data set gave no examples: " + data.describe(),
                             "check the data directory and the transformations; take(0), skip() "
                             "or a filter may have removed everything");
    }
    end_epoch(epoch);
    if (!whole) {
      if (scope_.is_chief()) {
        log::warning(
            fmt::format("the data ended at step {} of {} of epoch {}: fit() ends here; repeat() "
                        "the data set, or do not set steps_per_epoch",
                        step_, *options_.steps_per_epoch, epoch + 1));
      }
      return note_epoch_end(epoch, /*last=*/true);
    }
    const bool last = agree_on_end();
    step_ = 0;
    tally_ = Tally(impl_.compiled->objective.metric_names());
    note_epoch_end(epoch, last || epoch + 1 == options_.epochs);
    if (last) return;
  }
}

// Where the epochs end, for people who look at the run. Each one ends with a whole update.
void Fit::show_last_step() const {
  if (impl_.served() || steps_ < 0) return;
  const int64_t k = impl_.compiled->options.accumulate_steps;
  const int64_t an_epoch = (steps_ + k - 1) / k;
  impl_.session().show_last_step(scope_.step() + (options_.epochs - first_epoch_) * an_epoch -
                                 step_ / k);
}

bool Fit::begin(const Dataset& /*data*/) {
  if (!impl_.all_replicas_are_here(scope_)) impl_.session().check_alike(plan());
  if (find_backup() && belongs_to_later_fit()) {
    if (scope_.is_chief()) {
      log::info(fmt::format("skipping fit {}: {} belongs to fit {}, which continues", number_ + 1,
                            backups_->backup_dir(), found_fit_ + 1));
    }
    return false;
  }
  impl_.prepare_to_train();
  return true;
}

void Fit::begin_epochs(const Dataset& data, bool /*resumed*/) {
  begin_backups();
  // Data sets get a backup's places in the order in which they are made: it is the first.
  distributed_ = impl_.strategy().distribute(data);
}

bool Fit::train_epoch(int64_t epoch) {
  tell([&](Callback& callback) { callback.on_epoch_begin(epoch); });
  // It continues at its end.
  if (step_ == options_.steps_per_epoch) return true;
  // Steps over a part of the data continue where the last epoch ended.
  if (!options_.steps_per_epoch || batch_ == distributed_->end()) {
    batch_ = distributed_->begin();
  } else if (!fresh_) {
    ++batch_;
  }
  fresh_ = true;
  bool whole = true;
  for (;;) {
    if (batch_ == distributed_->end()) {
      whole = !options_.steps_per_epoch;
      break;
    }
    const bool updated = train_batch(epoch);
    if (updated && stop_if_told(epoch)) break;
    if (step_ == options_.steps_per_epoch) break;
    if (impl_.stop && impl_.all_replicas_are_here(scope_)) break;
    ++batch_;
    fresh_ = true;
  }
  if (!options_.steps_per_epoch || !whole) finish_update();
  return whole;
}

BatchResult Fit::next(int64_t /*epoch*/) {
  if (rows_.empty()) {
    const Batch& first = (*batch_)[0];
    std::vector<Element> parts;
    for (const ElementView& part :
         {ElementView(first.features), ElementView(first.labels), first.weights})
      if (part.defined()) parts.push_back(part.element());
    rows_ = encode_batch_spec(Element::tuple(std::move(parts)));
  }
  return impl_.train(*batch_, options_.class_weight);
}

bool Fit::train_batch(int64_t epoch) {
  tell([&](Callback& callback) { callback.on_train_batch_begin(step_); });
  const BatchResult made = next(epoch);
  fresh_ = false;
  ++step_;
  waiting_ = made.updated ? 0 : waiting_ + 1;
  tally_.add(made.loss, made.rows, made.metrics);
  note_better(made);
  if (made.updated) note_update();
  const BatchInfo info{.batch = step_ - 1, .rows = made.rows, .loss = made.loss, .logs = [&] {
                         return tally_.here();
                       }};
  tell([&](Callback& callback) { callback.on_train_batch_end(info); });
  if (made.updated && backups_ != nullptr && backups_->options().save_freq &&
      impl_.step() % *backups_->options().save_freq == 0) {
    backup(epoch, step_);
  }
  return made.updated;
}

void Fit::note_better(const BatchResult& made) {
  if (!impl_.better.empty() || made.metrics.empty()) return;
  impl_.better["loss"] = Better::kLower;
  const internal::Objective& objective = impl_.compiled->objective;
  for (size_t m = 0; m < made.metrics.front().size(); ++m) {
    const Better said = objective.better()[m];
    impl_.better[objective.metric_names()[m]] =
        said != Better::kUnknown ? said : made.metrics.front()[m].definition()->better;
  }
}

void Fit::finish_update() {
  if (waiting_ == 0) return;
  const int64_t before = scope_.step();
  scope_.apply_accumulated();
  waiting_ = 0;
  if (scope_.step() > before) tally_.add(scope_.last_step().loss, scope_.last_step().rows, {});
  note_update();
}

void Fit::end_epoch(int64_t epoch) {
  begin_epoch_end();
  Logs logs = tally_.over_all(impl_.strategy());
  if (options_.validation_data && (epoch + 1) % options_.validation_freq == 0) validate(logs);
  tell([&](Callback& callback) { callback.on_epoch_end(epoch, logs); });
  history_.add(epoch, logs);
  logs_ = std::move(logs);
  if (backs_up_epochs())
    backup(epoch + 1, 0,
           /*must=*/epoch + 1 >= options_.epochs && !backups_->options().delete_checkpoint);
}

bool Fit::backs_up_epochs() const {
  return backups_ != nullptr && !backups_->options().save_freq && waiting_ == 0;
}

void Fit::validate(Logs& logs) {
  EvaluateOptions evaluation{.steps = options_.validation_steps, .callbacks = callbacks_};
  for (const auto& [name, value] : impl_.evaluate(*options_.validation_data, evaluation))
    logs["val_" + name] = value;
}

json Fit::from_chief(const std::function<json()>& make) const {
  if (impl_.all_replicas_are_here(scope_)) return make();
  const auto all = impl_.session().gather_text(
      [&] { return scope_.is_chief() ? make().dump() : std::string(); });
  return json::parse(all.front());
}

bool Fit::on_any_worker(bool here) const {
  if (impl_.all_replicas_are_here(scope_)) return here;
  const auto results = impl_.strategy().run({.training = false}, [&] {
    return ReplicaContext::current().all_reduce(ReduceOp::kSum,
                                                torch::full({}, here ? 1 : 0, at::kLong));
  });
  return results[0].item<int64_t>() > 0;
}

bool Fit::agree_on_end() {
  // Whether each wants to stop, and its factor of the learning rate.
  const double factor = impl_.compiled->rate_factor->load();
  const auto all = impl_.strategy().run({.training = false}, [&] {
    return ReplicaContext::current().all_gather(
        torch::tensor({impl_.stop ? 1.0 : 0.0, factor}, at::kDouble).view({1, 2}), 0);
  });
  const Tensor factors = all[0].select(1, 1);
  if (!factors.eq(factor).all().item<bool>()) {
    throw invalid_argument(
        "fit: workers have different learning rates, so each would train a different model",
        "every worker calls set_learning_rate() with the same rate, not in `if (is_chief())` "
        "(docs/strategies.md, \"Who calls what\")");
  }
  return all[0].select(1, 0).any().item<bool>();
}

bool Fit::stop_if_told(int64_t epoch) {
  if (!scope_.should_stop()) return false;
  const auto signals = impl_.strategy().run({.training = false}, [] {
    return ReplicaContext::current().all_reduce(
        ReduceOp::kSum, torch::full({}, stop_signal() != 0 ? 1.0 : 0.0, at::kDouble));
  });
  if (signals[0].item<double>() == 0) {
    // Its program asked, here or on another worker: fit() returns, as after stop_training().
    if (backups_ != nullptr) backup(epoch, step_, /*must=*/true);
    impl_.stop = true;
    requested_ = true;
    return true;
  }
  if (backups_ != nullptr) {
    backup(epoch, step_, /*must=*/true);
    scope_.stop();
  }
  try {
    scope_.stop();
  } catch (const Error& stopped) {
    throw Error(stopped.kind(), stopped.message(),
                "nothing was saved, so the same command starts from the beginning; to continue a "
                "stopped fit(), give it a BackupAndRestore(folder) callback");
  }
}

}  // namespace muster::inline v0_1::keras::internal
