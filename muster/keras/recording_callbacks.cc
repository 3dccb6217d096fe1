// Callbacks that write a model's history.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/environment.h"
#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/command/job_dir.h"
#include "muster/files/file_systems.h"
#include "muster/keras/callbacks.h"
#include "muster/keras/model.h"
#include "muster/layers/model_graph.h"
#include "muster/summary/event_writer.h"
#include "muster/summary/tuning_report.h"
#include "muster/tensor/libtorch.h"
#include "muster/train/failed_saves.h"

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
        "omit it to write only after each epoch");
  }
}

TensorBoard::~TensorBoard() = default;

std::string TensorBoard::default_log_dir() {
  const std::string job = command::job_dir();
  return job.empty() ? "logs" : join_path(job, "logs");
}

void TensorBoard::on_train_begin(const FitInfo& /*info*/) {
  if (!model().is_chief()) return;
  const auto writer = [&](const char* name) {
    return std::make_unique<summary::EventWriter>(join_path(log_dir_, name), file_systems(),
                                                  system_clock());
  };
  train_ = writer("train");
  validation_ = writer("validation");
  // Events that a stopped run wrote after the place where this one continues are hidden. If this
  // run begins anew, earlier events of epoch 0 are hidden too.
  const int64_t step = model().step();
  train_->add_session_log(formats::SessionStatus::kStart, step == 0 ? 0 : step + 1);
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
  // All workers take part if weights are requested.
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
      failures_(std::make_unique<FailedSaves>(most_failed_saves(max_failed_saves, path_),
                                              "CSVLogger's max_failed_saves")) {
  if (path_.empty()) throw invalid_argument("CSVLogger: the path is empty", "name a file");
  check_max_failed_saves(max_failed_saves, "CSVLogger's max_failed_saves");
}
CSVLogger::~CSVLogger() = default;

void CSVLogger::on_train_begin(const FitInfo& info) {
  wanted_ = info.metrics;
  columns_.clear();
  text_.clear();
  written_ = true;
  FileSystem& files = file_systems();
  if (append_ && model().is_chief() && files.exists(path_).value())
    take(files.read_file(path_).value());
}

void CSVLogger::take(std::string text) {
  if (text.empty()) return;
  if (!text.ends_with('\n')) text += '\n';
  std::string header = text.substr(0, text.find('\n'));
  if (header.ends_with('\r')) header.pop_back();
  size_t begin = header.find(separator_);
  if (header.substr(0, begin) != "epoch" || header.size() + 1 > text.size()) {
    throw invalid_argument(
        fmt::format(
            "CSVLogger: {} begins with the line '{}', which is not a header of \"epoch\" and "
            "others between '{}'",
            path_, header.substr(0, 80), separator_),
        "add to a file that a CSVLogger with this separator wrote, or give it another path");
  }
  while (begin != std::string::npos) {
    begin += separator_.size();
    const size_t end = header.find(separator_, begin);
    columns_.push_back(header.substr(begin, end == std::string::npos ? end : end - begin));
    begin = end;
  }
  text_ = std::move(text);
}

void CSVLogger::add_column(const std::string& name) {
  columns_.push_back(name);
  std::string wider;
  wider.reserve(text_.size() + text_.size() / 16);
  bool header = true;
  for (const char c : text_) {
    if (c == '\n') wider += separator_ + (std::exchange(header, false) ? name : "");
    wider += c;
  }
  text_ = std::move(wider);
}

void CSVLogger::on_epoch_end(int64_t epoch, Logs& logs) {
  // By name, as in Logs: the existing values, and those of later epochs.
  std::set<std::string> names(wanted_.begin(), wanted_.end());
  const bool validates = std::ranges::any_of(
      wanted_, [](const std::string& name) { return name.starts_with("val_"); });
  for (const auto& [name, value] : logs) {
    names.insert(name);
    // The parts of a metric are known by now.
    const bool part = name.find('/') != std::string::npos && !name.starts_with("val_");
    if (validates && part) names.insert("val_" + name);
  }
  if (text_.empty()) text_ = "epoch\n";
  for (const std::string& name : names) {
    if (std::ranges::find(columns_, name) == columns_.end()) add_column(name);
  }
  text_ += std::to_string(epoch);
  for (const std::string& column : columns_) {
    const auto found = logs.find(column);
    text_ += separator_ + (found == logs.end() ? "" : fmt::format("{}", found->second));
  }
  text_ += "\n";
  if (!model().is_chief()) return;
  // The first one shows that it can be written.
  written_ = failures_->attempt(!has_written_, [&] { write(); });
  has_written_ = true;
}

void CSVLogger::on_train_end(const Logs& /*logs*/) {
  if (!model().is_chief() || written_) return;
  write();
  written_ = true;
}

void CSVLogger::write() const { file_systems().write_atomically(path_, text_).value(); }

nlohmann::json CSVLogger::state() const { return {{"columns", columns_}, {"text", text_}}; }

void CSVLogger::restore(const nlohmann::json& state) {
  columns_ = state.at("columns").get<std::vector<std::string>>();
  text_ = state.at("text").get<std::string>();
  // The last line may have failed to be written.
  written_ = false;
}

}  // namespace muster::inline v0_1::keras
