// A Callback hears of the moments of fit(), evaluate() and predict(), under Keras's names, and may
// change the run: its learning rate, its weights, whether it goes on.
// Thread safety: called on the thread that calls the model.
//
// On a cluster every worker calls its callbacks at the same moments. What they are told (Logs of an
// epoch, of validation) is the same on all, so that what follows from it is decided alike: do the
// same on every worker, and write files on the chief alone (`model().is_chief()`). With parameter
// servers those of the chief alone are called. Who asks the model for its weights there in the
// middle of an epoch gets those behind the newest update, which may be further than the batch.
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

// What is known of a fit() when it begins.
struct FitInfo {
  int64_t epochs = 1;
  int64_t initial_epoch = 0;  // the first that is trained, counted from 0
  int64_t steps = -1;         // of an epoch; -1: not known yet
  // What Logs of an epoch will hold.
  std::vector<std::string> metrics{};
};

// What is known of a batch behind its step.
struct BatchInfo {
  int64_t batch = 0;  // in the epoch, from 0
  int64_t rows = 0;   // examples over all replicas
  double loss = 0;    // of this batch over all replicas
  // Means since the epoch began. The loss is that of all replicas; metrics are those of the
  // replicas of this process, since asking the others costs a message. Calling it costs little.
  std::function<Logs()> logs{};
};

// Options of BackupAndRestore.
struct BackupAndRestoreOptions {
  // Steps between two backups; unset: behind each epoch.
  std::optional<int64_t> save_freq = {};
  // Whether the backup is deleted when fit() ends as it should.
  bool delete_checkpoint = true;
  // So many backups in a row may fail, and fit() goes on and tries again with the next; one more
  // ends it. The first must not fail, nor one for a task that was told to stop, nor the last where
  // it stays. Unset: 2 where backup_dir is in a bucket, 0 on a disk. 0 or more; the same on all
  // workers. With parameter servers a chief that is killed after backups that failed goes on in the
  // epoch where the servers are: the epochs since the backup are in no History, and no callback
  // sees them end.
  std::optional<int64_t> max_failed_saves = {};
};

// Where fit() makes backups of itself, which the same command goes on from, and how.
struct Backups {
  std::string backup_dir{};  // not empty
  BackupAndRestoreOptions options{};
};

// What a callback asks of fit() besides being called.
struct CallbackNeeds {
  // It shows how far fit() is, so that fit() has no ProgbarLogger beside it.
  bool shows_progress = false;
  // It calls Model::set_learning_rate(). On parameter servers, which follow the optimizer by
  // themselves, fit() then throws InvalidArgument before it begins.
  bool sets_learning_rate = false;
  // fit() makes backups, and goes on from the one that is there. One callback of a fit() at most
  // asks for them, on all workers alike.
  std::optional<Backups> backups = {};
};

// Override what you want to hear; the defaults do nothing.
class MUSTER_EXPORT Callback {
 public:
  virtual ~Callback() = default;

  // Called when fit() begins; restore() follows where a run goes on.
  virtual void on_train_begin(const FitInfo& /*info*/) {}
  // `logs` are those of the last epoch. As in Keras, it is not called where an error ends the run.
  virtual void on_train_end(const Logs& /*logs*/) {}
  // Called before the first batch of an epoch, from 0; also where a run goes on in its middle.
  virtual void on_epoch_begin(int64_t /*epoch*/) {}
  // Behind the validation. What a callback adds to `logs` those behind it see, and History too.
  virtual void on_epoch_end(int64_t /*epoch*/, Logs& /*logs*/) {}
  // Called before a batch, from 0 in each epoch.
  virtual void on_train_batch_begin(int64_t /*batch*/) {}
  // Called behind its step.
  virtual void on_train_batch_end(const BatchInfo& /*info*/) {}
  // Called when evaluate(), or the validation of fit(), begins.
  virtual void on_test_begin() {}
  // Called behind each of its batches.
  virtual void on_test_batch_end(const BatchInfo& /*info*/) {}
  // Called with what it measured.
  virtual void on_test_end(const Logs& /*logs*/) {}
  // Called when predict() begins.
  virtual void on_predict_begin() {}
  // Called behind each of its batches, from 0.
  virtual void on_predict_batch_end(int64_t /*batch*/) {}
  // Called when all is predicted.
  virtual void on_predict_end() {}

  // Asked once, before fit() begins. Muster's own callbacks have no powers but these: what
  // BackupAndRestore, ProgbarLogger and ReduceLROnPlateau answer, one of yours may answer too.
  virtual CallbackNeeds needs() const { return {}; }

  // What a run that was stopped has to remember of this callback: the best value so far, how long
  // nothing got better. It stands in the backup under name(), and the run that continues gives it
  // to restore() behind on_train_begin(). Null: nothing.
  virtual std::string name() const { return {}; }
  virtual nlohmann::json state() const;
  virtual void restore(const nlohmann::json& state);
  // The same for tensors, which the chief alone is asked for and given.
  virtual std::map<std::string, Tensor> tensors() const { return {}; }
  // Takes what tensors() gave when the run was stopped.
  virtual void restore_tensors(const std::map<std::string, Tensor>& /*tensors*/) {}

  // The model that is trained. Throws InvalidArgument outside of fit(), evaluate() and predict().
  Model& model() const;
  // For who calls callbacks.
  void set_model(Model* model) { model_ = model; }

 private:
  Model* model_ = nullptr;
};

}  // namespace muster::inline v0_1::keras
