// Keras's callbacks; backup_and_restore.h has one more. They go into FitOptions::callbacks:
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

// Which values are better. kAuto: the lower ones of a loss, and of a metric of compile() those that
// it says (MetricKind::better, or MetricChoice's own); else the name tells, see better_by_name().
// Where nobody says it, fit() throws InvalidArgument behind its first batch, or for a value that
// another callback put into the Logs, behind the first epoch that has it.
enum class MonitorMode { kAuto, kMin, kMax };

// Follows one of the Logs of the epochs, and knows its best value.
class MUSTER_EXPORT Monitor {
 public:
  // `whose` begins the messages. A value is better when it is so by more than `min_delta`.
  Monitor(std::string whose, std::string name, MonitorMode mode, double min_delta = 0);

  // Learns from the model that is trained which values are better. `there`: the Logs have the name.
  // Throws InvalidArgument where it cannot be told and the name is there, or one of a metric.
  void learn(const Model& model, bool there = false);

  // The value in `logs`; nothing, with a warning that names those there are, where it is missing.
  std::optional<double> value(const Logs& logs) const;
  // Whether it is better than the best so far. REQUIRES, with the two below: learn() knows it.
  bool is_better(double value) const;
  // Whether it is better than another.
  bool is_better_than(double value, double other) const;
  // An infinite one where there is none yet.
  double best() const;
  // Makes it the best so far.
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
  bool save_best_only = false;     // only where `monitor` is better than ever
  bool save_weights_only = false;  // Model::save_weights() in place of Model::save()
  // Steps between two saves; unset: behind each epoch.
  std::optional<int64_t> save_freq = {};
  // A value that has to be beaten for the first save of save_best_only.
  std::optional<double> initial_value_threshold = {};
  // So many saves in a row may fail, and fit() goes on and tries again with the next; one more ends
  // it. The first must not fail, nor the last: what failed last is saved at the end of fit(), with
  // the weights of then. Of save_best_only what failed is not the best, and a later one may be.
  // Unset: 2 where the path is in a bucket, 0 on a disk. 0 or more.
  std::optional<int64_t> max_failed_saves = {};
};

// Saves the model. "{epoch}" and "{val_loss}", any of the Logs, may stand in the path, with
// Python's formats: "weights-{epoch:02d}-{val_loss:.2f}.safetensors"; the first epoch is 1 there.
// What is saved at the same path replaces what was there.
class MUSTER_EXPORT ModelCheckpoint : public Callback {
 public:
  // Throws InvalidArgument for an empty path, weights whose path does not end in ".safetensors",
  // save_freq < 1, max_failed_saves < 0, and save_freq with save_best_only: the best of what, is
  // known behind an epoch.
  explicit ModelCheckpoint(std::string path, ModelCheckpointOptions options = {});
  ~ModelCheckpoint() override;

  void on_train_batch_end(const BatchInfo& info) override;
  void on_epoch_begin(int64_t epoch) override { epoch_ = epoch; }
  void on_epoch_end(int64_t epoch, Logs& logs) override;
  void on_train_end(const Logs& logs) override;
  std::string name() const override { return "ModelCheckpoint:" + path_; }
  nlohmann::json state() const override;
  void restore(const nlohmann::json& state) override;

 private:
  // Returns whether it is saved; otherwise the log says why.
  bool save(const Logs& logs, bool must);

  const std::string path_;
  const ModelCheckpointOptions options_;
  Monitor monitor_;
  int64_t epoch_ = 0;
  std::unique_ptr<FailedSaves> failures_;
  bool has_saved_ = false;
  struct Unsaved {
    int64_t epoch{};
    Logs logs{};
  };
  std::optional<Unsaved> unsaved_;  // what the last save was to be, where it failed
};

// Options of EarlyStopping.
struct EarlyStoppingOptions {
  std::string monitor = "val_loss";
  double min_delta = 0;
  int64_t patience = 0;  // epochs without a better value that are put up with
  MonitorMode mode = MonitorMode::kAuto;
  // A value that has to be beaten from the start.
  std::optional<double> baseline = {};
  // Whether the weights of the best epoch are put back at the end, also where training was not
  // stopped early.
  bool restore_best_weights = false;
  int64_t start_from_epoch = 0;  // epochs before this one do not count
};

// Ends fit() when a value has stopped to get better.
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

  // The epoch that training was stopped behind; -1 where it was not.
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
  double factor = 0.1;  // of the rate that stays; above 0 and below 1
  int64_t patience = 10;
  MonitorMode mode = MonitorMode::kAuto;
  double min_delta = 1e-4;
  int64_t cooldown = 0;  // epochs behind a reduction that do not count
  double min_lr = 0;
};

// Lowers the learning rate when a value has stopped to get better. The rate of each epoch is
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

// Sets the learning rate of each epoch to what a function makes of its number, from 0, and of the
// rate so far. The rate is "learning_rate" in the Logs.
class MUSTER_EXPORT LearningRateScheduler : public Callback {
 public:
  // Gives the rate of an epoch.
  using Schedule = std::function<double(int64_t epoch, double learning_rate)>;
  // Throws InvalidArgument when the function is empty.
  explicit LearningRateScheduler(Schedule schedule);

  void on_epoch_begin(int64_t epoch) override;
  void on_epoch_end(int64_t epoch, Logs& logs) override;
  CallbackNeeds needs() const override { return {.sets_learning_rate = true}; }

 private:
  const Schedule schedule_;
};

// Options of TensorBoard.
struct TensorBoardOptions {
  int64_t histogram_freq = 0;  // epochs between two histograms of the weights; 0: none
  bool write_graph = true;     // of models whose inputs are known
  // "epoch", or every so many batches: losses and metrics so far in the epoch.
  std::optional<int64_t> update_freq = {};
};

// Writes what TensorBoard shows: "epoch_loss" and so on in log_dir/train and log_dir/validation,
// the learning rate, histograms and the graph. On a cluster the chief writes.
class MUSTER_EXPORT TensorBoard : public Callback {
 public:
  // Throws InvalidArgument for an empty directory, and numbers out of range.
  // Without a directory: "logs" below that of the job (--model_dir or --job-dir), else "logs".
  explicit TensorBoard(std::string log_dir = default_log_dir(), TensorBoardOptions options = {});
  ~TensorBoard() override;
  static std::string default_log_dir();

  void on_train_begin(const FitInfo& info) override;
  void on_train_batch_end(const BatchInfo& info) override;
  void on_epoch_end(int64_t epoch, Logs& logs) override;
  void on_train_end(const Logs& logs) override;

 private:
  const std::string log_dir_;
  const TensorBoardOptions options_;
  std::unique_ptr<summary::EventWriter> train_, validation_;
};

// Writes the Logs of each epoch as a line of a CSV file: "epoch,accuracy,loss,...". The columns of
// what is validated are there from the first line, empty where an epoch was not; what a callback
// begins to tell later gets a column at the end, in all lines. A run that goes on adds to what is
// there. On a cluster the chief writes.
class MUSTER_EXPORT CSVLogger : public Callback {
 public:
  // `append`: adds to a file that is there, in place of beginning it anew, under its columns; fit()
  // throws InvalidArgument where its first line is no such header. `max_failed_saves`: so
  // many writes in a row may fail, but neither the first nor the last, and the next one brings all
  // lines; unset: 2 where the path is in a bucket, 0 on a disk. Throws InvalidArgument for an empty
  // path and for max_failed_saves < 0.
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

  // Takes the lines of a file that is there.
  void take(std::string text);
  // Adds a column to all lines.
  void add_column(const std::string& name);

  const bool append_;
  std::vector<std::string> wanted_;   // what fit() said that it measures
  std::vector<std::string> columns_;  // behind "epoch"
  std::string text_;                  // all lines
  std::unique_ptr<FailedSaves> failures_;
  bool written_ = false;  // all lines, on the chief
  bool has_written_ = false;
};

// Ends fit() with NonFinite where the loss of a batch is no number. Without it a loss that is not
// finite is an error too, before anything is updated; this one is here for who looks for it.
class MUSTER_EXPORT TerminateOnNaN : public Callback {
 public:
  void on_train_batch_end(const BatchInfo& info) override;
};

// Calls functions where there are some.
class MUSTER_EXPORT LambdaCallback : public Callback {
 public:
  // The functions, by their moments; empty ones are left out.
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
