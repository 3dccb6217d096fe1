// One call of Model::fit(). Thread safety: belongs to the thread of the model.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/distribute/agree.h"
#include "muster/keras/backup_and_restore.h"
#include "muster/keras/internal/model_impl.h"
#include "muster/keras/internal/tally.h"
#include "muster/loop/distributed_dataset.h"
#include "muster/train/checkpoint_writer.h"

namespace muster::inline v0_1::keras::internal {

// Under which a backup holds what fit() has to remember.
constexpr const char* kFitNote = "keras_fit";

// Where the model's replicas train it. On parameter servers a ServedFit overrides what differs, and
// in an elastic run an ElasticFit.
class Fit {
 public:
  // The fit() of this model, on servers or not. REQUIRES: of an elastic run, its workers have
  // joined, by this call.
  static std::unique_ptr<Fit> make(Model& model, const FitOptions& options, int64_t number);
  static std::string call(int64_t number);
  // `number`: which fit() of the model it is, from 0. Throws InvalidArgument for options that are
  // not as FitOptions says, and for those that fit() on parameter servers does not have.
  Fit(Model& model, const FitOptions& options, int64_t number);

  virtual ~Fit() = default;
  Fit(const Fit&) = delete;
  Fit& operator=(const Fit&) = delete;

  History run(const Dataset& data);

 protected:
  // --- what servers change ---
  // Finds a backup, and brings together what trains. False where there is nothing to train, or this
  // task was through with its part.
  virtual bool begin(const Dataset& data);
  // Before the first epoch; `resumed`: a backup has said which that is.
  virtual void begin_epochs(const Dataset& data, bool resumed);
  void show_last_step() const;
  // False when the data was used up before the epoch's steps were made.
  virtual bool train_epoch(int64_t epoch);
  // Trains one batch, or learns what one has brought.
  virtual BatchResult next(int64_t epoch);
  // Whether the end of an epoch is backed up.
  virtual bool backs_up_epochs() const;
  // The notes of the backup that was found; and where the run is by them.
  virtual const std::map<std::string, std::string>& restored_notes() const;
  virtual void take_place(const nlohmann::json& /*note*/) {}
  // The step of the model at which the epoch began that runs.
  virtual int64_t epoch_began() const { return 0; }
  // Saves a backup with what callbacks keep. Returns whether it is there, on all workers; nothing
  // where a thread writes it, which it may unless it `must` be there.
  virtual std::optional<bool> save(int64_t epoch, int64_t step, int64_t may_fail, bool must);
  // Waits for one that a thread writes; after an error, the log has that of the backup.
  virtual bool settle_save();
  virtual bool await_save() noexcept;
  virtual void end_steps() { distributed_.reset(); }
  virtual void end_saving();

  // --- what an elastic run changes ---
  // What fit() continues from, and the tensors of callbacks with it; resume() takes it.
  virtual nlohmann::json note_to_resume() const;
  virtual std::map<std::string, Tensor> tensors_to_resume();
  // The batches so far are in the weights.
  virtual void note_update() {}
  // The end of an epoch begins, which may be made again; it is over, and so is fit() if `last`.
  virtual void begin_epoch_end() {}
  virtual void note_epoch_end(int64_t /*epoch*/, bool /*last*/) {}
  // Ends the run after a signal; true where it makes no more steps: a program asked, or other
  // workers go on.
  virtual bool stop_if_told(int64_t epoch);
  // Whether other workers go on, although a call threw `error`; and the way to them, in place of
  // begin().
  virtual bool goes_on_after(const Error& /*error*/) const { return false; }
  virtual bool regroup(const Dataset& data) { return begin(data); }

  using Batches = distribute::DistributedDataset::Iterator;

  // Where the run goes on that a backup is of; nothing where there is none of this fit().
  bool find_backup();
  // An earlier fit() than the one that was stopped is not trained again.
  bool belongs_to_later_fit() const { return found_fit_ > number_; }
  void resume();
  // Before the first step, so that a folder which is no place for backups ends fit() there: locks
  // it on the chief. All workers learn which folders were made.
  void begin_backups();
  // It may fail, as BackupAndRestoreOptions::max_failed_saves says, unless it `must` not.
  void backup(int64_t epoch, int64_t step, bool must = false);
  // All workers together: waits for a backup that a thread writes.
  void settle_backup();
  // The same for this worker alone, where fit() has failed.
  void end_backup_after_error();
  // What follows where the backup that was begun is there, or is not.
  void note_backup(bool saved);
  // Whether that of this step is the latest there, or this is unknown.
  bool backup_may_be_there(int64_t step) const;
  // What fit() has to remember there.
  std::string note(int64_t epoch, int64_t step) const;
  // By what a run is known that a backup is of: what it is called with, as JSON of texts.
  nlohmann::json identity() const;
  // What all workers call it with: a part of that, and what a continued run may change.
  distribute::Settings plan() const;
  // Throws InvalidArgument where the backup that the note is in was begun by another run; of
  // another fit() than the `same_fit`, by another program.
  void check_begun_alike(const std::string& note, bool same_fit = true) const;
  // How a fit() that is known by `now` differs from that of the note: "the seed: 1, and was 2".
  static std::vector<std::string> differences(const nlohmann::json& now, const nlohmann::json& note,
                                              bool same_fit);
  // What callbacks keep; states by key_of(), tensors as resume() takes them.
  nlohmann::json states_of_callbacks() const;
  std::map<std::string, Tensor> tensors_of_callbacks() const;
  // Of fit() on a cluster: the folder of its backups, where the program has one for its job.
  void make_own_backups();
  // Under which a backup knows a callback: its name, and its number among those of that name.
  std::string key_of(const Callback& callback) const;
  // On the chief: the folders that a backup would make, the outermost first.
  void note_missing_folders();
  // What a backup of callbacks needs before it is written; nothing on others than the chief.
  BeforeSave before_backup() const;
  // Waits for what threads of callbacks write.
  void await_callbacks() const;
  // Whether it holds on any worker.
  bool on_any_worker(bool here) const;
  void end_backups();
  // For a checkpoint in the folder of the backups that is none.
  static Error no_backup(const std::string& found);
  // The file of what callbacks keep in addition to the backup of that step.
  std::string tensors_of_callbacks(int64_t step) const;

  void check_served() const;

  void train_epochs(const Dataset& data);
  bool train_batch(int64_t epoch);
  // Learns which values of the metrics are better.
  void note_better(const BatchResult& made);
  void finish_update();
  void end_epoch(int64_t epoch);
  void validate(Logs& logs);
  // Whether a callback wants no more epochs, on any worker.
  bool agree_on_end();
  // What `make` returns on the chief. What it throws ends the others, too.
  nlohmann::json from_chief(const std::function<nlohmann::json()>& make) const;

  template <typename Fn>
  void tell(const Fn& fn) {
    for (const auto& callback : callbacks_) fn(*callback);
  }

  Model& model_;
  Model::Impl& impl_;
  const FitOptions& options_;
  const int64_t number_;
  const distribute::Scope scope_;
  std::vector<std::shared_ptr<Callback>> callbacks_;
  bool files_may_be_read_ = false;  // by callbacks of the program
  std::shared_ptr<BackupAndRestore> backups_;
  std::string data_;                       // as it describes itself
  std::vector<std::string> made_folders_;  // around that of the backups
  int64_t found_fit_ = -1;                 // of the backup that was found
  Tally tally_;
  History history_;
  Logs logs_;  // of the last epoch
  std::optional<distribute::DistributedDataset> distributed_;
  Batches batch_;
  bool fresh_ = false;  // the batch was not trained yet
  std::string rows_;    // the form of the batches, once it is known
  int64_t first_epoch_;
  int64_t step_ = 0;    // batches of the epoch so far
  int64_t steps_ = -1;  // of an epoch, where that is known
  int64_t saved_ = -1;  // the step of the model at the last backup
  // The backup that is not settled: the steps of the model there, and at the tensors of callbacks
  // before.
  struct Begun {
    int64_t step, tensors_before;
  };
  std::optional<Begun> begun_;
  int64_t waiting_ = 0;      // batches that wait for an update
  int64_t tensors_at_ = -1;  // the step of the model at which those of callbacks were saved
  bool requested_ = false;   // a program asked it to stop
  bool over_ = false;        // all epochs are trained; on_train_end() is left
  bool regroups_ = false;    // other workers go on
};

}  // namespace muster::inline v0_1::keras::internal
