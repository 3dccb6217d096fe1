#include "muster/serve/model_versions.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "muster/base/log.h"
#include "muster/base/strings.h"
#include "muster/base/uri.h"

namespace muster::inline v0_1::serve {

ServedVersion::ServedVersion(int64_t number, std::shared_ptr<Model> loaded,
                             const BatcherOptions& options, ServingMetrics& metrics)
    : version(number),
      model(std::move(loaded)),
      batcher([this](const std::string& signature,
                     const Arrays& inputs) { return model->run(signature, inputs); },
              options, metrics) {}

ModelVersions::ModelVersions(std::string directory, Load load, int keep,
                             const BatcherOptions& options, ServingMetrics& metrics,
                             FileSystem& files)
    : directory_(std::move(directory)),
      is_file_(directory_.ends_with(".onnx") || directory_.ends_with(".pb")),
      load_(std::move(load)),
      keep_(keep),
      options_(options),
      metrics_(metrics),
      files_(files) {
  if (keep < 1) {
    throw invalid_argument(
        fmt::format("ModelVersions: keep is {}; at least one version is served", keep));
  }
}

ModelVersions::~ModelVersions() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  ended_.notify_all();
  if (poller_.joinable()) poller_.join();
}

void ModelVersions::poll_every(Duration period) {
  poller_ = std::thread([this, period] {
    std::unique_lock lock(mutex_);
    while (!ended_.wait_for(lock, period, [&] { return ending_; })) {
      lock.unlock();
      poll();
      lock.lock();
    }
  });
}

void ModelVersions::poll() {
  const auto found = versions();
  {
    const std::lock_guard lock(mutex_);
    trouble_.reset();
    if (!found.ok() && found.error().kind() != ErrorKind::kNotFound) trouble_ = found.error();
  }
  if (!found.ok() || found.value().empty()) {
    const std::string why =
        found.ok() ? fmt::format("there is no version in {}", directory_) : found.error().message();
    // Before the first load the caller that starts the server reports it.
    if (!warned_ && newest() != nullptr) log::warning(why + "; the loaded version stays in use");
    warned_ = true;
    return;
  }
  warned_ = false;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(failures_, [&](const auto& failure) {
      return std::ranges::find(found.value(), failure.first) == found.value().end();
    });
  }
  std::map<int64_t, std::shared_ptr<ServedVersion>> wanted;
  for (const int64_t version : found.value()) {
    if (static_cast<int>(wanted.size()) == keep_) break;
    if (auto got = get(version)) wanted.emplace(version, std::move(got));
  }
  if (!wanted.empty()) replace(std::move(wanted));
}

std::optional<Error> ModelVersions::trouble() const {
  const std::lock_guard lock(mutex_);
  return trouble_;
}

Result<std::vector<int64_t>> ModelVersions::versions() const {
  if (is_file_) {
    const auto info = files_.info(directory_);
    if (!info.ok()) return info.error();
    return std::vector<int64_t>{1};
  }
  const auto names = files_.list_directory(directory_);
  if (!names.ok()) return names.error();
  std::vector<int64_t> found;
  for (const std::string& name : names.value()) {
    const auto number = parse_int(name);
    if (!number || *number < 0 || std::to_string(*number) != name) continue;
    const Result<bool> there = is_there(*number);
    if (!there.ok()) return there.error();
    if (there.value()) found.push_back(*number);
  }
  std::ranges::sort(found, std::greater());
  return found;
}

std::string ModelVersions::place_of(int64_t version) const {
  return is_file_ ? directory_ : join_path(directory_, std::to_string(version));
}

Result<bool> ModelVersions::is_there(int64_t version) const {
  const std::string folder = place_of(version);
  if (!is_remote(directory_)) {
    const auto info = files_.info(folder);
    return info.ok() && info.value().is_directory;
  }
  // What was served was whole.
  if (find(version) != nullptr) return true;
  return files_.exists(join_path(folder, "signatures.json"));
}

std::shared_ptr<ServedVersion> ModelVersions::get(int64_t version) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = loaded_.find(version); found != loaded_.end()) return found->second;
    const auto failed = failures_.find(version);
    if (failed != failures_.end() && --failed->second.wait > 0) return nullptr;
    loading_ = version;
  }
  const std::string folder = place_of(version);
  std::shared_ptr<ServedVersion> made;
  std::string error;
  try {
    made = std::make_shared<ServedVersion>(version, load_(folder), options_, metrics_);
  } catch (const Error& caught) {
    error = caught.message();
  } catch (const std::exception& caught) {
    error = caught.what();
  }
  metrics_.observe_load(made != nullptr);
  const std::lock_guard lock(mutex_);
  loading_ = -1;
  if (made != nullptr) {
    failures_.erase(version);
    return made;
  }
  constexpr int kMostPolls = 64;
  Failure& failure = failures_[version];
  if (failure.error != error) {
    log::warning(fmt::format("version {} cannot be served: {}", version, error));
  }
  failure.error = error;
  failure.wait = failure.next_wait;
  failure.next_wait = std::min(failure.next_wait * 2, kMostPolls);
  return nullptr;
}

void ModelVersions::replace(std::map<int64_t, std::shared_ptr<ServedVersion>> wanted) {
  const int64_t newest = wanted.rbegin()->first;
  std::map<int64_t, std::shared_ptr<ServedVersion>> before;
  {
    const std::lock_guard lock(mutex_);
    before = std::exchange(loaded_, std::move(wanted));
  }
  if (metrics_.version.exchange(newest) == newest) return;
  log::event("serving", {{"version", newest}},
             fmt::format("serving version {} of {}", newest, directory_));
}

std::shared_ptr<ServedVersion> ModelVersions::newest() const {
  const std::lock_guard lock(mutex_);
  return loaded_.empty() ? nullptr : loaded_.rbegin()->second;
}

std::shared_ptr<ServedVersion> ModelVersions::find(int64_t version) const {
  const std::lock_guard lock(mutex_);
  const auto found = loaded_.find(version);
  return found == loaded_.end() ? nullptr : found->second;
}

std::vector<VersionStatus> ModelVersions::status() const {
  std::vector<VersionStatus> all;
  const std::lock_guard lock(mutex_);
  for (const auto& entry : loaded_) all.push_back({entry.first, "AVAILABLE", ""});
  for (const auto& [version, failure] : failures_) {
    if (version != loading_) all.push_back({version, "END", failure.error});
  }
  if (loading_ >= 0) all.push_back({loading_, "LOADING", ""});
  std::ranges::sort(all, std::greater(), &VersionStatus::version);
  return all;
}

}  // namespace muster::inline v0_1::serve
