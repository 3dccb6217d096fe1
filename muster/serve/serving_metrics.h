// The counters of a server, for Prometheus. Thread safety: any thread may count and read.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster::inline v0_1::serve {

// Counts values in buckets with rising upper bounds.
class MetricHistogram {
 public:
  // `bounds` must outlive the histogram.
  explicit MetricHistogram(std::span<const double> bounds);
  void observe(double value);
  // Adds the lines of the text format. `labels` is empty, or pairs such as verb="predict".
  void write(std::string& text, std::string_view name, std::string_view labels) const;

 private:
  std::span<const double> bounds_;
  mutable std::mutex mutex_;
  std::vector<uint64_t> counts_;  // by bucket; the last is beyond all bounds
  uint64_t count_ = 0;
  double sum_ = 0;
};

class ServingMetrics {
 public:
  ServingMetrics();

  // Counts one request that was answered with HTTP status `code` after `seconds`. `verb` is one of
  // "predict", "classify", "regress" and "other".
  void observe_request(std::string_view verb, int code, double seconds);
  // Counts one batch that the model computed.
  void observe_batch(int64_t requests, int64_t rows);
  // Counts one attempt to load a version.
  void observe_load(bool good);

  // Requests that wait for the model or are being answered by it.
  std::atomic<int64_t> waiting{0};
  // The connections that are open.
  std::atomic<int64_t> connections{0};
  // The version that answers requests; 0 while there is none.
  std::atomic<int64_t> version{0};

  // The text format of Prometheus, version 0.0.4. Names begin with muster_serve_.
  std::string text() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, uint64_t> requests_;  // by verb and code
  std::map<std::string, MetricHistogram, std::less<>> seconds_;
  MetricHistogram batch_requests_;
  MetricHistogram batch_rows_;
  std::atomic<uint64_t> loads_{0};
  std::atomic<uint64_t> failed_loads_{0};
};

}  // namespace muster::inline v0_1::serve
