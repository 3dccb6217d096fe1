// Keras's callbacks; backup_and_restore.h has one more. Add them to FitOptions::callbacks:
//
//   model.fit(data, {.epochs = 50,
//                    .validation_data = test,
//                    .callbacks = {std::make_shared<keras::EarlyStopping>(
//                        keras::EarlyStoppingOptions{.patience = 3})}});
//
// Thread safety: as Callback.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/export.h"
#include "muster/keras/callback.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1 {
class FailedSaves;
}

namespace muster::inline v0_1::summary {
class EventWriter;
}

namespace muster::inline v0_1::keras {

// Which values are better. kAuto: lower values of a loss; for a metric of compile() as its
// definition says (MetricKind::better, or MetricChoice's own); else by the name, see
// better_by_name(). If none of these tells, fit() throws InvalidArgument after its first batch, or,
// for a value that another callback adds to the Logs, after the first epoch that has it.
enum class MonitorMode { kAuto, kMin, kMax };

// Follows one value in the Logs of the epochs, and keeps its best value.
class MUSTER_EXPORT Monitor {
 public:
  // `whose` begins the messages. A value is better only by more than `min_delta`.
  Monitor(std::string whose, std::string name, MonitorMode mode, double min_delta = 0);

  // Finds out from the trained model which values are better. `there`: the Logs have the name.
  // Throws InvalidArgument if it cannot tell although the name is in the Logs or is a metric's.
  void learn(const Model& model, bool there = false);

  // Returns the value in `logs`; nothing, with a warning that lists the names, if it is missing.
  std::optional<double> value(const Logs& logs) const;
  // Whether it is better than the best so far. REQUIRES, also for the next two: learn() has
  // succeeded.
  bool is_better(double value) const;
  // Whether it is better than another value.
  bool is_better_than(double value, double other) const;
  // Returns the best value; infinite before the first.
  double best() const;
  // Sets the best value.
  void set_best(double value) { best_ = value; }
  bool lower_is_better() const { return mode_ == MonitorMode::kMin; }
  const std::string& name() const { return name_; }

 private:
  std::string whose_, name_;
  MonitorMode mode_;
  double min_delta_;
  std::optional<double> best_;
};

// Options of ModelCheckpoint.
struct ModelCheckpointOptions {
  std::string monitor = "val_loss";
  MonitorMode mode = MonitorMode::kAuto;
  bool save_best_only = false;     // only if `monitor` is better than ever before
  bool save_weights_only = false;  // Model::save_weights() instead of Model::save()
  // Steps between two saves; unset: after each epoch.
  std::optional<int64_t> save_freq = {};
  // The value that the first save of save_best_only must beat.
  std::optional<double> initial_value_threshold = {};
  // Whether a thread writes a save from the second on, while fit() makes steps. Every save is
  // written before a backup that knows of it, before the next save, and before
  // Callback::on_train_end(). Unset: only if no other callback may read the file
  // (FitInfo::files_may_be_read). The chief then holds what it saves once more in memory.
  std::optional<bool> asynchronous = {};
  // How many saves in a row may fail: fit() continues and tries again at the next save; one more
  // failure ends it. The first and the last save must succeed: if the last save failed, fit() saves
  // again at its end, with the weights of that time. With save_best_only a failed save does not
  // count as the best, so a later one may. Unset: 2 if the path is in a bucket, 0 on a disk. 0 or
  // more.
  std::optional<int64_t> max_failed_saves = {};
};

// Saves the model. The path may contain "{epoch}" and names of the Logs such as "{val_loss}", with
// Python's formats: "weights-{epoch:02d}-{val_loss:.2f}.safetensors"; here the first epoch is 1. A
// save replaces an earlier one at the same path.
class MUSTER_EXPORT ModelCheckpoint : public Callback {
 public:
  // Throws InvalidArgument for an empty path, weights whose path does not end in ".safetensors",
  // save_freq < 1, max_failed_saves < 0, and save_freq together with save_best_only, because the
  // monitored value is known only after an epoch.
  explicit ModelCheckpoint(std::string path, ModelCheckpointOptions options = {});
  ~ModelCheckpoint() override;

  void on_train_begin(const FitInfo& info) override;
  void on_train_batch_end(const BatchInfo& info) override;
  void on_epoch_begin(int64_t epoch) override { epoch_ = epoch; }
  void on_epoch_end(int64_t epoch, Logs& logs) override;
  void on_train_end(const Logs& logs) override;
  std::string name() const override { return "ModelCheckpoint:" + path_; }
  nlohmann::json state() const override;
  std::function<nlohmann::json()> settled_state() const override;
  void restore(const nlohmann::json& state) override;

 private:
  struct Unsaved {
    int64_t epoch{};
    Logs logs{};
  };
  struct Aside;
  static nlohmann::json state_of(const Monitor& monitor, const std::optional<Unsaved>& unsaved);
  // Returns whether it was saved, or a thread saves it; if not, the log says why. `before` is the
  // monitor without this save.
  bool save(const Logs& logs, bool must, const Monitor& before);
  // Waits for the save that a thread writes.
  void settle();
  // The same where an error has ended fit(): this process alone. Returns whether it is written, and
  // logs if not.
  bool end_save();
  // The last save has failed: the callback is where it was before.
  void take_back();

  const std::string path_;
  const ModelCheckpointOptions options_;
  Monitor monitor_;
  int64_t epoch_ = 0;
  std::unique_ptr<FailedSaves> failures_;
  bool has_saved_ = false;
  std::optional<Unsaved> unsaved_;  // the last save, if it failed
  std::unique_ptr<Aside> aside_;    // where a thread may write
};

// Options of EarlyStopping.
struct EarlyStoppingOptions {
  std::string monitor = "val_loss";
  double min_delta = 0;
  int64_t patience = 0;  // allowed epochs in a row without improvement
  MonitorMode mode = MonitorMode::kAuto;
  // The value that training must beat from the start.
  std::optional<double> baseline = {};
  // Whether to restore the weights of the best epoch at the end, even if training was not stopped
  // early.
  bool restore_best_weights = false;
  int64_t start_from_epoch = 0;  // epochs before this one are ignored
};

// Ends fit() when a value has stopped improving.
class MUSTER_EXPORT EarlyStopping : public Callback {
 public:
  // Throws InvalidArgument for a number below 0.
  explicit EarlyStopping(EarlyStoppingOptions options = {});

  void on_train_begin(const FitInfo& info) override;
  void on_train_batch_end(const BatchInfo& info) override;
  void on_epoch_end(int64_t epoch, Logs& logs) override;
  void on_train_end(const Logs& logs) override;
  std::string name() const override { return "EarlyStopping:" + options_.monitor; }
  nlohmann::json state() const override;
  void restore(const nlohmann::json& state) override;
  std::map<std::string, Tensor> tensors() const override { return best_weights_; }
  void restore_tensors(const std::map<std::string, Tensor>& tensors) override {
    best_weights_ = tensors;
  }

  // Returns the epoch after which training was stopped; -1 if it was not.
  int64_t stopped_epoch() const { return stopped_epoch_; }
  int64_t best_epoch() const { return best_epoch_; }

 private:
  const EarlyStoppingOptions options_;
  Monitor monitor_;
  int64_t wait_ = 0, stopped_epoch_ = -1, best_epoch_ = -1;
  std::map<std::string, Tensor> best_weights_;  // on the chief
};

// Options of ReduceLROnPlateau.
struct ReduceLROnPlateauOptions {
  std::string monitor = "val_loss";
  double factor = 0.1;  // multiplies the rate; above 0 and below 1
  int64_t patience = 10;
  MonitorMode mode = MonitorMode::kAuto;
  double min_delta = 1e-4;
  int64_t cooldown = 0;  // epochs after a reduction that are ignored
  double min_lr = 0;
};

// Lowers the learning rate when a value has stopped improving. The rate of each epoch is
// "learning_rate" in its Logs.
class MUSTER_EXPORT ReduceLROnPlateau : public Callback {
 public:
  // Throws InvalidArgument for numbers out of range.
  explicit ReduceLROnPlateau(ReduceLROnPlateauOptions options = {});

  void on_train_begin(const FitInfo& info) override;
  void on_train_batch_end(const BatchInfo& info) override;
  void on_epoch_end(int64_t epoch, Logs& logs) override;
  CallbackNeeds needs() const override { return {.sets_learning_rate = true}; }
  std::string name() const override { return "ReduceLROnPlateau:" + options_.monitor; }
  nlohmann::json state() const override;
  void restore(const nlohmann::json& state) override;

 private:
  const ReduceLROnPlateauOptions options_;
  Monitor monitor_;
  int64_t wait_ = 0, cooldown_ = 0;
};

// Sets the learning rate of each epoch by a function of its number, from 0, and of the current
// rate. The rate is "learning_rate" in the Logs.
class MUSTER_EXPORT LearningRateScheduler : public Callback {
 public:
  // Returns the rate of an epoch.
  using Schedule = std::function<double(int64_t epoch, double learning_rate)>;
  // Throws InvalidArgument when the function is empty.
  explicit LearningRateScheduler(Schedule schedule);

  void on_train_begin(const FitInfo& info) override;
  void on_epoch_begin(int64_t epoch) override;
  void on_epoch_end(int64_t epoch, Logs& logs) override;
  CallbackNeeds needs() const override { return {.sets_learning_rate = true}; }
  std::string name() const override { return "LearningRateScheduler"; }
  nlohmann::json state() const override;
  void restore(const nlohmann::json& state) override;

 private:
  const Schedule schedule_;
  int64_t epoch_ = -1;  // whose rate was set
};

// Options of TensorBoard.
struct TensorBoardOptions {
  int64_t histogram_freq = 0;  // epochs between two histograms of the weights; 0: none
  bool write_graph = true;     // for models with known inputs
  // "epoch", or the number of batches between two writes of the epoch's losses and metrics so far.
  std::optional<int64_t> update_freq = {};
};

// Writes events for TensorBoard: "epoch_loss" and so on in log_dir/train and log_dir/validation,
// the learning rate, histograms and the graph. On a cluster the chief writes.
class MUSTER_EXPORT TensorBoard : public Callback {
 public:
  // Throws InvalidArgument for an empty directory, and numbers out of range. The default is "logs"
  // in the directory of the job (--model_dir or --job-dir), or "logs" without one.
  explicit TensorBoard(std::string log_dir = default_log_dir(), TensorBoardOptions options = {});
  ~TensorBoard() override;
  static std::string default_log_dir();

  CallbackNeeds needs() const override { return {.live_dir = log_dir_}; }
  void on_train_begin(const FitInfo& info) override;
  void on_train_batch_end(const BatchInfo& info) override;
  void on_epoch_end(int64_t epoch, Logs& logs) override;
  void on_train_end(const Logs& logs) override;

 private:
  const std::string log_dir_;
  const TensorBoardOptions options_;
  std::unique_ptr<summary::EventWriter> train_, validation_;
};

// Writes the Logs of each epoch as a line of a CSV file: "epoch,accuracy,loss,...". Columns of
// validation exist from the first line, and are empty for an epoch without validation; a new entry
// of a callback adds a column at the end of all lines. A continued run appends. On a cluster the
// chief writes.
class MUSTER_EXPORT CSVLogger : public Callback {
 public:
  // `append`: appends to an existing file, with its columns; fit() throws InvalidArgument if its
  // first line is not such a header. `max_failed_saves`: how many writes in a row may fail, except
  // the first and the last; the next one writes all lines. Unset: 2 if the path is in a bucket, 0
  // on a disk. Throws InvalidArgument for an empty path and for max_failed_saves < 0.
  explicit CSVLogger(std::string path, std::string separator = ",", bool append = false,
                     std::optional<int64_t> max_failed_saves = {});
  ~CSVLogger() override;

  void on_train_begin(const FitInfo& info) override;
  void on_epoch_end(int64_t epoch, Logs& logs) override;
  void on_train_end(const Logs& logs) override;
  std::string name() const override { return "CSVLogger:" + path_; }
  nlohmann::json state() const override;
  void restore(const nlohmann::json& state) override;

 private:
  const std::string path_, separator_;
  void write() const;

  // Takes over the lines of an existing file.
  void take(std::string text);
  // Adds a column to all lines.
  void add_column(const std::string& name);

  const bool append_;
  std::vector<std::string> wanted_;   // the names that fit() announced
  std::vector<std::string> columns_;  // after "epoch"
  std::string text_;                  // all lines
  std::unique_ptr<FailedSaves> failures_;
  bool written_ = false;  // whether all lines are written, on the chief
  bool has_written_ = false;
};

// Ends fit() with NonFinite if the loss of a batch is NaN. Without it such a loss is an error too,
// before anything is updated; this class exists for programs written for Keras.
class MUSTER_EXPORT TerminateOnNaN : public Callback {
 public:
  void on_train_batch_end(const BatchInfo& info) override;
};

// Calls the given functions.
class MUSTER_EXPORT LambdaCallback : public Callback {
 public:
  // The functions by event; empty ones are not called.
  struct Functions {
    std::function<void()> on_train_begin = {}, on_train_end = {};
    std::function<void(int64_t epoch)> on_epoch_begin = {};
    std::function<void(int64_t epoch, Logs& logs)> on_epoch_end = {};
    std::function<void(int64_t batch)> on_batch_begin = {};
    std::function<void(const BatchInfo& info)> on_batch_end = {};
  };
  explicit LambdaCallback(Functions functions) : functions_(std::move(functions)) {}

  void on_train_begin(const FitInfo&) override {
    if (functions_.on_train_begin) functions_.on_train_begin();
  }
  void on_train_end(const Logs&) override {
    if (functions_.on_train_end) functions_.on_train_end();
  }
  void on_epoch_begin(int64_t epoch) override {
    if (functions_.on_epoch_begin) functions_.on_epoch_begin(epoch);
  }
  void on_epoch_end(int64_t epoch, Logs& logs) override {
    if (functions_.on_epoch_end) functions_.on_epoch_end(epoch, logs);
  }
  void on_train_batch_begin(int64_t batch) override {
    if (functions_.on_batch_begin) functions_.on_batch_begin(batch);
  }
  void on_train_batch_end(const BatchInfo& info) override {
    if (functions_.on_batch_end) functions_.on_batch_end(info);
  }

 private:
  const Functions functions_;
};

}  // namespace muster::inline v0_1::keras
