// A Callback observes fit(), evaluate() and predict(), with Keras's method names, and may change
// the run: its learning rate, its weights, or whether it continues.
// Thread safety: called on the thread that calls the model.
//
// On a cluster every worker calls its callbacks at the same points. Their arguments (Logs of an
// epoch, of validation) are the same on all workers, so that all decide the same: do the same on
// every worker, and write files only on the chief (`model().is_chief()`). With parameter servers
// only the chief's callbacks are called. A callback that asks the model for its weights there in
// the middle of an epoch gets those after the newest update, which may be later than the batch.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::keras {

class Model;

// Losses and metrics by name; those of validation begin with "val_".
using Logs = std::map<std::string, double>;

// What is known when fit() begins.
struct FitInfo {
  int64_t epochs = 1;
  int64_t initial_epoch = 0;  // the first epoch to train, counted from 0
  int64_t steps = -1;         // of an epoch; -1: not known yet
  // The names in the Logs of an epoch.
  std::vector<std::string> metrics{};
  // Whether this fit() has a callback that may read what others write, on any worker: one that is
  // not a class of Muster, or a LambdaCallback.
  bool files_may_be_read = true;
};

// What is known of a batch after its step.
struct BatchInfo {
  int64_t batch = 0;  // in the epoch, from 0
  int64_t rows = 0;   // examples over all replicas
  double loss = 0;    // of this batch over all replicas
  // Returns means since the epoch began. The loss is over all replicas; metrics are over the
  // replicas of this process, because other processes would need a message. The call is cheap.
  std::function<Logs()> logs{};
};

// Options of BackupAndRestore.
struct BackupAndRestoreOptions {
  // Steps between two backups; unset: after each epoch.
  std::optional<int64_t> save_freq = {};
  // Whether a thread writes a backup from its second on, while fit() makes steps. The last backup
  // is there before Callback::on_train_end().
  bool asynchronous = true;
  // Whether to delete the backup when fit() ends normally.
  bool delete_checkpoint = true;
  // How many backups in a row may fail: fit() continues and tries again at the next; one more
  // failure ends it. The first backup must succeed, and so must the one of a task that was asked to
  // stop, and the last one if it is kept. Unset: 2 if backup_dir is in a bucket, 0 on a disk. 0 or
  // more; the same on all workers. With parameter servers, a chief that is killed after failed
  // backups continues in the servers' current epoch: the epochs since the backup are missing in the
  // History, and no callback sees them end.
  std::optional<int64_t> max_failed_saves = {};
};

// Where and how fit() makes backups of itself, from which the same command continues.
struct Backups {
  std::string backup_dir{};  // not empty
  BackupAndRestoreOptions options{};
};

// What a callback needs from fit() besides its calls.
struct CallbackNeeds {
  // Whether it shows the progress of fit(), so that fit() adds no ProgbarLogger.
  bool shows_progress = false;
  // Whether it calls Model::set_learning_rate(). On parameter servers, whose optimizer does not
  // follow it, fit() then throws InvalidArgument before it begins.
  bool sets_learning_rate = false;
  // Makes fit() write backups, and continue from an existing one. At most one callback of a fit()
  // may ask for this, and all workers must ask for the same.
  std::optional<Backups> backups = {};
  // A folder in which `muster top` and `muster board` may find the run while it trains, unless the
  // program has --model_dir or --job-dir. The first one that a callback names is used.
  std::string live_dir = {};
};

// Override the calls you need; the defaults do nothing.
class MUSTER_EXPORT Callback {
 public:
  virtual ~Callback() = default;

  // Called when fit() begins, and in an elastic run again when its workers have changed; in a run
  // that continues restore() follows.
  virtual void on_train_begin(const FitInfo& /*info*/) {}
  // `logs` are those of the last epoch. As in Keras, it is not called if an error ends the run.
  virtual void on_train_end(const Logs& /*logs*/) {}
  // Called before the first batch of an epoch, counted from 0; also if a run continues in the
  // middle of one.
  virtual void on_epoch_begin(int64_t /*epoch*/) {}
  // Called after the validation; in an elastic run again if the workers changed meanwhile. Entries
  // that a callback adds to `logs` are passed to later callbacks and to History.
  virtual void on_epoch_end(int64_t /*epoch*/, Logs& /*logs*/) {}
  // Called before a batch, from 0 in each epoch.
  virtual void on_train_batch_begin(int64_t /*batch*/) {}
  // Called after the step of a batch.
  virtual void on_train_batch_end(const BatchInfo& /*info*/) {}
  // Called when evaluate(), or the validation of fit(), begins.
  virtual void on_test_begin() {}
  // Called after each of its batches.
  virtual void on_test_batch_end(const BatchInfo& /*info*/) {}
  // Called with the results.
  virtual void on_test_end(const Logs& /*logs*/) {}
  // Called when predict() begins.
  virtual void on_predict_begin() {}
  // Called after each of its batches, from 0.
  virtual void on_predict_batch_end(int64_t /*batch*/) {}
  // Called after all predictions.
  virtual void on_predict_end() {}

  // Asked once, before fit() begins. Muster's own callbacks have no powers but these: what
  // BackupAndRestore, ProgbarLogger and ReduceLROnPlateau answer, one of yours may answer too.
  virtual CallbackNeeds needs() const { return {}; }

  // Returns the state of this callback that a stopped run must keep: the best value so far, the
  // number of epochs without improvement. The backup stores it under name(), and the continued run
  // passes it to restore() after on_train_begin(). Null: nothing.
  virtual std::string name() const { return {}; }
  virtual nlohmann::json state() const;
  virtual void restore(const nlohmann::json& state);
  // If a thread still writes what state() takes as written: returns a function that waits for the
  // thread and returns what state() then is. It throws an Error if no backup may be made. fit()
  // calls it on some thread before a backup with the state is there, before it calls
  // on_train_end() of the first callback, and when it fails. nullptr: state() is final.
  virtual std::function<nlohmann::json()> settled_state() const;
  // The same as state() and restore() for tensors; only the chief's are stored and restored.
  virtual std::map<std::string, Tensor> tensors() const { return {}; }
  // Restores what tensors() returned when the run was stopped.
  virtual void restore_tensors(const std::map<std::string, Tensor>& /*tensors*/) {}

  // Returns the trained model. Throws InvalidArgument outside of fit(), evaluate() and predict().
  Model& model() const;
  // For the caller of callbacks.
  void set_model(Model* model) { model_ = model; }

 private:
  Model* model_ = nullptr;
};

}  // namespace muster::inline v0_1::keras
