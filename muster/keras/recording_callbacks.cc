// Callbacks that write what a model learns.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/environment.h"
#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/keras/callbacks.h"
#include "muster/keras/model.h"
#include "muster/layers/model_graph.h"
#include "muster/stores/file_systems.h"
#include "muster/summary/event_writer.h"
#include "muster/summary/tuning_report.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::keras {

TensorBoard::TensorBoard(std::string log_dir, TensorBoardOptions options)
    : log_dir_(std::move(log_dir)), options_(options) {
  if (log_dir_.empty()) throw invalid_argument("TensorBoard: log_dir is empty", "name a folder");
  if (options_.histogram_freq < 0) {
    throw invalid_argument(fmt::format("TensorBoard: histogram_freq is {}; it must be 0 or more",
                                       options_.histogram_freq));
  }
  if (options_.update_freq && *options_.update_freq < 1) {
    throw invalid_argument(
        fmt::format("TensorBoard: update_freq is {}; it must be at least 1", *options_.update_freq),
        "leave it out to write behind each epoch alone");
  }
}

TensorBoard::~TensorBoard() = default;

void TensorBoard::on_train_begin(const FitInfo& /*info*/) {
  if (!model().is_chief()) return;
  const auto writer = [&](const char* name) {
    return std::make_unique<summary::EventWriter>(join_path(log_dir_, name), stores::file_systems(),
                                                  system_clock());
  };
  train_ = writer("train");
  validation_ = writer("validation");
  // What a run that was stopped wrote behind the place where this one goes on is hidden.
  train_->add_session_log(formats::SessionStatus::kStart, model().step());
  if (const auto graph = model().graph(); options_.write_graph && graph)
    train_->add_graph(*graph, model().step());
}

void TensorBoard::on_train_batch_end(const BatchInfo& info) {
  if (train_ == nullptr || !options_.update_freq || model().step() % *options_.update_freq != 0)
    return;
  for (const auto& [name, value] : info.logs())
    train_->add_scalar("batch_" + name, value, model().step());
}

void TensorBoard::on_epoch_end(int64_t epoch, Logs& logs) {
  const bool histograms = options_.histogram_freq > 0 && epoch % options_.histogram_freq == 0;
  // All workers take part where weights are asked for.
  const auto weights =
      histograms ? model().get_weights() : std::vector<std::pair<std::string, Tensor>>();
  if (train_ == nullptr) return;
  std::vector<std::pair<std::string, double>> validation;
  for (const auto& [name, value] : logs) {
    const bool validated = name.starts_with("val_");
    const std::string tag = "epoch_" + (validated ? name.substr(4) : name);
    (validated ? validation_ : train_)->add_scalar(tag, value, epoch);
    if (validated) validation.emplace_back(tag, value);
  }
  summary::report_to_tuner(Environment::process(), system_clock(), "validation", validation, epoch);
  if (!logs.contains("learning_rate"))
    train_->add_scalar("epoch_learning_rate", model().learning_rate(), epoch);
  for (const auto& [name, value] : weights) {
    const Tensor flat = value.to(kFloat32).contiguous();
    train_->add_histogram(name, {flat.data_ptr<float>(), static_cast<size_t>(flat.numel())}, epoch);
  }
  train_->flush();
  validation_->flush();
}

void TensorBoard::on_train_end(const Logs& /*logs*/) {
  if (train_ == nullptr) return;
  train_->close();
  validation_->close();
  train_ = nullptr;
  validation_ = nullptr;
}

CSVLogger::CSVLogger(std::string path, std::string separator, bool append,
                     std::optional<int64_t> max_failed_saves)
    : path_(std::move(path)),
      separator_(std::move(separator)),
      append_(append),
      failures_(most_failed_saves(max_failed_saves, path_), "CSVLogger's max_failed_saves") {
  if (path_.empty()) throw invalid_argument("CSVLogger: the path is empty", "name a file");
  check_max_failed_saves(max_failed_saves, "CSVLogger's max_failed_saves");
}

void CSVLogger::on_train_begin(const FitInfo& /*info*/) {
  columns_.clear();
  text_.clear();
  written_ = true;
  FileSystem& files = stores::file_systems();
  if (append_ && model().is_chief() && files.exists(path_).value())
    text_ = files.read_file(path_).value();
}

void CSVLogger::on_epoch_end(int64_t epoch, Logs& logs) {
  std::string columns = "epoch", line = std::to_string(epoch);
  for (const auto& [name, value] : logs) {
    columns += separator_ + name;
    line += separator_ + fmt::format("{}", value);
  }
  if (columns_.empty()) {
    columns_ = columns;
    if (text_.empty()) text_ = columns + "\n";
  } else if (columns != columns_) {
    // An epoch without validation has fewer: its values stand in their columns.
    line = std::to_string(epoch);
    size_t begin = columns_.find(separator_);
    while (begin != std::string::npos) {
      const size_t end = columns_.find(separator_, begin + separator_.size());
      const std::string name =
          columns_.substr(begin + separator_.size(),
                          end == std::string::npos ? end : end - begin - separator_.size());
      const auto found = logs.find(name);
      line += separator_ + (found == logs.end() ? "" : fmt::format("{}", found->second));
      begin = end;
    }
  }
  text_ += line + "\n";
  if (!model().is_chief()) return;
  // The first one shows that it can be written.
  written_ = failures_.attempt(!has_written_, [&] { write(); });
  has_written_ = true;
}

void CSVLogger::on_train_end(const Logs& /*logs*/) {
  if (!model().is_chief() || written_) return;
  write();
  written_ = true;
}

void CSVLogger::write() const { stores::file_systems().write_atomically(path_, text_).value(); }

nlohmann::json CSVLogger::state() const { return {{"columns", columns_}, {"text", text_}}; }

void CSVLogger::restore(const nlohmann::json& state) {
  columns_ = state.at("columns").get<std::string>();
  text_ = state.at("text").get<std::string>();
  // The last line may be one that could not be written.
  written_ = false;
}

}  // namespace muster::inline v0_1::keras
