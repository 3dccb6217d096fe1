#include "muster/estimator/exporter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "muster/base/better.h"
#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/log.h"
#include "muster/base/nearest_hint.h"
#include "muster/base/strings.h"
#include "muster/cluster/resolved_cluster.h"
#include "muster/estimator/estimator.h"
#include "muster/estimator/internal/exporter_name.h"
#include "muster/estimator/internal/metrics_json.h"
#include "muster/export/servable.h"
#include "muster/export/write_version.h"
#include "muster/files/file_systems.h"

namespace muster::inline v0_1 {
namespace {

using nlohmann::json;

constexpr const char* kBestFile = "best.json";
constexpr int kFormatVersion = 1;

double metric_of(const EvalResult& result, const std::string& metric) {
  const auto found = result.find(metric);
  if (found != result.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [name, value] : result) names.push_back(name);
  throw invalid_argument(
      fmt::format("best_exporter: the evaluation has no metric \"{}\"; it has {}", metric,
                  join_quoted(names)),
      nearest_hint(metric, names, "compare by one of these"));
}

// A number is better than NaN.
CompareFn comparison(std::string metric, bool higher) {
  return [metric = std::move(metric), higher](const EvalResult& best, const EvalResult& current) {
    const double before = metric_of(best, metric), now = metric_of(current, metric);
    if (std::isnan(now) || std::isnan(before)) return std::isnan(before) && !std::isnan(now);
    return higher ? now > before : now < before;
  };
}

FileSystem& files_of(const Estimator& estimator) {
  return estimator.config().fs != nullptr ? *estimator.config().fs : file_systems();
}

void retire_version(FileSystem& files, const std::string& directory, int64_t version) {
  if (const Status removed = remove_version(files, directory, version); !removed.ok())
    log::warning(fmt::format("cannot remove an old export: {}", removed.error().message()));
}

// The common part of all exporters.
class ExporterBase : public Exporter {
 public:
  ExporterBase(const char* function, std::string name, ServingInputReceiver receiver,
               ExportModelOptions options, std::optional<int64_t> exports_to_keep)
      : exports_to_keep_(exports_to_keep),
        name_(std::move(name)),
        receiver_(std::move(receiver)),
        options_(std::move(options)) {
    if (!internal::names_a_folder(name_)) {
      throw invalid_argument(fmt::format("{}: name is \"{}\"", function, name_),
                             "it names a folder: a word without a slash, and not \".\" or \"..\"");
    }
    if (exports_to_keep_ && *exports_to_keep_ < 1) {
      throw invalid_argument(fmt::format("{}: exports_to_keep is {}", function, *exports_to_keep_),
                             "keep 1 or more, or all with std::nullopt");
    }
    if (receiver_.features.empty()) {
      throw invalid_argument(fmt::format("{}: the receiver has no features", function),
                             "make it with raw_serving_input_receiver() or "
                             "parsing_serving_input_receiver()");
    }
  }
  const std::string& name() const override { return name_; }

 protected:
  std::optional<std::string> write(Estimator& estimator, const std::string& export_path,
                                   const std::string& checkpoint_path) const {
    ExportModelOptions options = options_;
    options.checkpoint_path = checkpoint_path;
    return estimator.export_model(export_path, receiver_, options);
  }

  const std::optional<int64_t> exports_to_keep_;

 private:
  const std::string name_;
  const ServingInputReceiver receiver_;
  const ExportModelOptions options_;
};

class FinalExporter final : public ExporterBase {
 public:
  using ExporterBase::ExporterBase;

  std::optional<std::string> export_model(Estimator& estimator, const std::string& export_path,
                                          const std::string& checkpoint_path, const EvalResult&,
                                          bool is_the_final_export) override {
    if (!is_the_final_export) return std::nullopt;
    return write(estimator, export_path, checkpoint_path);
  }
};

class LatestExporter final : public ExporterBase {
 public:
  using ExporterBase::ExporterBase;

  std::optional<std::string> export_model(Estimator& estimator, const std::string& export_path,
                                          const std::string& checkpoint_path, const EvalResult&,
                                          bool) override {
    const auto path = write(estimator, export_path, checkpoint_path);
    if (!path || !exports_to_keep_) return path;
    FileSystem& files = files_of(estimator);
    const std::vector<int64_t> versions = model_versions(export_path, &files);
    const auto keep = static_cast<size_t>(*exports_to_keep_);
    for (size_t i = 0; i + keep < versions.size(); ++i)
      retire_version(files, export_path, versions[i]);
    return path;
  }
};

// One evaluation, and the export that was made of it.
struct Entry {
  int64_t version = 0;
  std::string checkpoint{};
  EvalResult metrics{};
};

json json_of(const Entry& entry) {
  return {{"export", entry.version},
          {"checkpoint", entry.checkpoint},
          {"metrics", internal::json_of_metrics(entry.metrics)}};
}

Entry entry_of(const json& fields) {
  return {.version = fields.at("export").get<int64_t>(),
          .checkpoint = fields.at("checkpoint").get<std::string>(),
          .metrics = internal::metrics_of_json(fields.at("metrics"))};
}

// The content of best.json: the best evaluation so far, and the evaluations of the kept exports.
struct BestSoFar {
  std::optional<Entry> best{};
  std::vector<Entry> exports{};  // in the order they were made
};

BestSoFar read_best(FileSystem& files, const std::string& path) {
  const Result<std::string> text = files.read_file(path);
  if (!text.ok() && text.error().kind() == ErrorKind::kNotFound) return {};
  const json all = parse_json(text.value(), path, ErrorKind::kCorrupt).value();
  try {
    if (all.at("format_version").get<int>() > kFormatVersion)
      throw invalid_argument(path + " was written by a newer Muster", "use that one");
    BestSoFar found{.best = entry_of(all.at("best"))};
    for (const json& each : all.at("exports")) found.exports.push_back(entry_of(each));
    return found;
  } catch (const json::exception& error) {
    throw corrupt(fmt::format("{} does not contain the best evaluation: {}", path, error.what()),
                  "remove it: the next evaluation is the best then");
  }
}

void write_best(FileSystem& files, const std::string& path, const BestSoFar& best) {
  json all = {{"format_version", kFormatVersion},
              {"best", json_of(*best.best)},
              {"exports", json::array()}};
  for (const Entry& entry : best.exports) all["exports"].push_back(json_of(entry));
  files.write_atomically(path, all.dump(2, ' ', false, json::error_handler_t::replace) + "\n")
      .value();
}

class BestExporter final : public ExporterBase {
 public:
  BestExporter(std::string name, ServingInputReceiver receiver, BestExporterOptions options)
      : ExporterBase("best_exporter", std::move(name), std::move(receiver),
                     {.use_ema = options.use_ema, .formats = std::move(options.formats)},
                     options.exports_to_keep),
        compare_(std::move(options.compare)) {
    if (!compare_) {
      throw invalid_argument("best_exporter: compare is empty",
                             "loss_smaller, metric_higher(\"accuracy\"), or one of your own");
    }
  }

  std::optional<std::string> export_model(Estimator& estimator, const std::string& export_path,
                                          const std::string& checkpoint_path,
                                          const EvalResult& eval_result, bool) override {
    const cluster::ResolvedCluster& task = estimator.cluster();
    if (!task.is_chief && !task.is_evaluator) return std::nullopt;
    FileSystem& files = files_of(estimator);
    const std::string file = join_path(export_path, kBestFile);
    BestSoFar so_far = read_best(files, file);
    // Also for the first one: a missing metric shows at once.
    const EvalResult& best = so_far.best ? so_far.best->metrics : eval_result;
    if (!compare_(best, eval_result) && so_far.best) return std::nullopt;

    // Versions that a person removed are forgotten first: their numbers may be given again.
    const std::vector<int64_t> there = model_versions(export_path, &files);
    std::erase_if(so_far.exports, [&](const Entry& entry) {
      return std::find(there.begin(), there.end(), entry.version) == there.end();
    });
    const auto path = write(estimator, export_path, checkpoint_path);
    if (!path) return std::nullopt;
    const std::string version(base_name(*path));
    so_far.best =
        Entry{parse_int(version).value(), std::string(base_name(checkpoint_path)), eval_result};
    so_far.exports.push_back(*so_far.best);
    const std::vector<int64_t> retired = retire(so_far.exports);
    write_best(files, file, so_far);
    for (const int64_t each : retired) retire_version(files, export_path, each);
    return path;
  }

 private:
  // Takes the worst of the surplus exports out of the list, and returns them.
  std::vector<int64_t> retire(std::vector<Entry>& exports) const {
    std::vector<int64_t> retired;
    while (exports_to_keep_ && exports.size() > static_cast<size_t>(*exports_to_keep_)) {
      auto worst = exports.begin();
      for (auto each = exports.begin(); each != exports.end(); ++each) {
        if (compare_(each->metrics, worst->metrics)) worst = each;
      }
      retired.push_back(worst->version);
      exports.erase(worst);
    }
    return retired;
  }

  const CompareFn compare_;
};

}  // namespace

bool loss_smaller(const EvalResult& best, const EvalResult& current) {
  return comparison("loss", /*higher=*/false)(best, current);
}

CompareFn metric_higher(std::string metric) {
  warn_of_direction("metric_higher", metric, Better::kHigher);
  return comparison(std::move(metric), true);
}
CompareFn metric_lower(std::string metric) {
  warn_of_direction("metric_lower", metric, Better::kLower);
  return comparison(std::move(metric), false);
}

ExporterPtr final_exporter(std::string name, ServingInputReceiver receiver,
                           FinalExporterOptions options) {
  return std::make_shared<FinalExporter>(
      "final_exporter", std::move(name), std::move(receiver),
      ExportModelOptions{.use_ema = options.use_ema, .formats = std::move(options.formats)},
      std::nullopt);
}

ExporterPtr latest_exporter(std::string name, ServingInputReceiver receiver,
                            LatestExporterOptions options) {
  return std::make_shared<LatestExporter>(
      "latest_exporter", std::move(name), std::move(receiver),
      ExportModelOptions{.use_ema = options.use_ema, .formats = std::move(options.formats)},
      options.exports_to_keep);
}

ExporterPtr best_exporter(std::string name, ServingInputReceiver receiver,
                          BestExporterOptions options) {
  return std::make_shared<BestExporter>(std::move(name), std::move(receiver), std::move(options));
}

}  // namespace muster::inline v0_1
