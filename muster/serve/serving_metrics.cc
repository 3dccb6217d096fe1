#include "muster/serve/serving_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace muster::inline v0_1::serve {
namespace {

constexpr std::array<double, 14> kSeconds = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05,
                                             0.1,    0.25,  0.5,    1,     2.5,  5,     10};
constexpr std::array<double, 11> kSizes = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};
constexpr std::array<std::string_view, 4> kVerbs = {"predict", "classify", "regress", "other"};

void write_head(std::string& text, std::string_view name, std::string_view type,
                std::string_view help) {
  fmt::format_to(std::back_inserter(text), "# HELP {0} {2}\n# TYPE {0} {1}\n", name, type, help);
}

template <typename T>
void write_one(std::string& text, std::string_view name, std::string_view type,
               std::string_view help, T value) {
  write_head(text, name, type, help);
  fmt::format_to(std::back_inserter(text), "{} {}\n", name, value);
}

}  // namespace

MetricHistogram::MetricHistogram(std::span<const double> bounds)
    : bounds_(bounds), counts_(bounds.size() + 1) {}

void MetricHistogram::observe(double value) {
  const auto bucket = std::ranges::lower_bound(bounds_, value) - bounds_.begin();
  const std::lock_guard lock(mutex_);
  ++counts_[static_cast<size_t>(bucket)];
  ++count_;
  sum_ += value;
}

void MetricHistogram::write(std::string& text, std::string_view name,
                            std::string_view labels) const {
  const std::lock_guard lock(mutex_);
  auto out = std::back_inserter(text);
  const std::string_view comma = labels.empty() ? "" : ",";
  uint64_t below = 0;
  for (size_t at = 0; at < bounds_.size(); ++at) {
    below += counts_[at];
    fmt::format_to(out, "{}_bucket{{{}{}le=\"{}\"}} {}\n", name, labels, comma, bounds_[at], below);
  }
  fmt::format_to(out, "{}_bucket{{{}{}le=\"+Inf\"}} {}\n", name, labels, comma, count_);
  const std::string braced = labels.empty() ? "" : fmt::format("{{{}}}", labels);
  fmt::format_to(out, "{0}_sum{1} {2}\n{0}_count{1} {3}\n", name, braced, sum_, count_);
}

ServingMetrics::ServingMetrics() : batch_requests_(kSizes), batch_rows_(kSizes) {
  for (const std::string_view verb : kVerbs) seconds_.try_emplace(std::string(verb), kSeconds);
}

void ServingMetrics::observe_request(std::string_view verb, int code, double seconds) {
  seconds_.find(verb)->second.observe(seconds);
  const std::lock_guard lock(mutex_);
  ++requests_[{std::string(verb), code}];
}

void ServingMetrics::observe_batch(int64_t requests, int64_t rows) {
  batch_requests_.observe(static_cast<double>(requests));
  batch_rows_.observe(static_cast<double>(rows));
}

void ServingMetrics::observe_load(bool good) { (good ? loads_ : failed_loads_).fetch_add(1); }

std::string ServingMetrics::text() const {
  std::string text;
  write_head(text, "muster_serve_requests_total", "counter", "Requests answered, by HTTP status.");
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, count] : requests_) {
      fmt::format_to(std::back_inserter(text),
                     "muster_serve_requests_total{{verb=\"{}\",code=\"{}\"}} {}\n", key.first,
                     key.second, count);
    }
  }
  write_head(text, "muster_serve_request_seconds", "histogram",
             "Seconds from the head of a request to its answer.");
  for (const auto& [verb, histogram] : seconds_) {
    histogram.write(text, "muster_serve_request_seconds", fmt::format("verb=\"{}\"", verb));
  }
  write_head(text, "muster_serve_batch_requests", "histogram",
             "Requests that one batch of the model answered.");
  batch_requests_.write(text, "muster_serve_batch_requests", "");
  write_head(text, "muster_serve_batch_rows", "histogram", "Rows of one batch of the model.");
  batch_rows_.write(text, "muster_serve_batch_rows", "");
  write_one(text, "muster_serve_waiting_requests", "gauge",
            "Requests that wait for the model or are being answered by it.", waiting.load());
  write_one(text, "muster_serve_open_connections", "gauge", "Connections that are open.",
            connections.load());
  write_one(text, "muster_serve_model_version", "gauge",
            "The version that answers requests; 0 while there is none.", version.load());
  write_one(text, "muster_serve_loads_total", "counter", "Versions that were loaded.",
            loads_.load());
  write_one(text, "muster_serve_failed_loads_total", "counter",
            "Attempts to load a version that failed.", failed_loads_.load());
  return text;
}

}  // namespace muster::inline v0_1::serve
