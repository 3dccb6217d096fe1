#include "muster/serve/batcher.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "muster/base/error.h"

namespace muster::inline v0_1::serve {

struct Batcher::Job {
  std::string signature{};
  std::string key{};  // equal where requests may be joined
  Arrays inputs;
  int64_t rows = 0;
  bool joins = false;
  TimePoint arrived{};
  bool given_up = false;  // its deadline has passed, and its client waits no more
  std::optional<Result<Arrays>> result{};
  std::condition_variable answered{};
};

namespace {

// The properties that must agree for requests to share a batch.
std::string key_of(const std::string& signature, const Arrays& inputs) {
  std::string key = signature;
  for (const auto& [name, array] : inputs) {
    key += fmt::format("\n{} {}", name, fmt::join(array.shape.begin() + 1, array.shape.end(), "x"));
  }
  return key;
}

// The rows [first, first + count) of all arrays.
Arrays slice_all(const Arrays& arrays, int64_t first, int64_t count) {
  Arrays rows;
  for (const auto& [name, array] : arrays) rows.emplace(name, slice_rows(array, first, count));
  return rows;
}

}  // namespace

Batcher::Batcher(Run run, const BatcherOptions& options, ServingMetrics& metrics, Clock& clock)
    : run_(std::move(run)), options_(options), metrics_(metrics), clock_(clock) {
  if (options.max_rows < 1 || options.max_requests < 1 || options.runners < 1 ||
      options.max_wait < Duration(0)) {
    throw invalid_argument(fmt::format(
        "Batcher: max_rows is {}, max_requests {}, runners {} and max_wait {} ns; the first three "
        "must be at least 1, the last at least 0",
        options.max_rows, options.max_requests, options.runners, options.max_wait.count()));
  }
  for (int at = 0; at < options.runners; ++at) runners_.emplace_back([this] { run_batches(); });
}

Batcher::~Batcher() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  arrived_.notify_all();
  joined_.notify_all();
  for (std::thread& runner : runners_) runner.join();
}

void Batcher::check_room() const {
  const std::lock_guard lock(mutex_);
  check_room_locked();
}

void Batcher::check_room_locked() const {
  if (requests_ < options_.max_requests) return;
  throw Error(ErrorKind::kUnavailable,
              fmt::format("{} requests wait already, which is the limit", requests_),
              "ask again later");
}

Arrays Batcher::answer(const std::string& signature, Arrays inputs, int64_t rows, bool joins,
                       TimePoint deadline) {
  auto job = std::make_shared<Job>();
  job->signature = signature;
  job->key = key_of(signature, inputs);
  job->inputs = std::move(inputs);
  job->rows = rows;
  job->joins = joins;
  job->arrived = clock_.now();
  std::unique_lock lock(mutex_);
  check_room_locked();
  ++requests_;
  metrics_.waiting.fetch_add(1);  // the batchers of several versions share it
  queue_.push_back(job);
  arrived_.notify_one();
  joined_.notify_all();
  const bool done =
      clock_.wait_until(lock, job->answered, deadline, [&] { return job->result.has_value(); });
  --requests_;
  metrics_.waiting.fetch_sub(1);
  if (!done) {
    job->given_up = true;
    std::erase(queue_, job);
    throw Error(ErrorKind::kTimeout, "there was no answer within the time of a request",
                "ask again later, or with fewer rows");
  }
  lock.unlock();
  return std::move(*job->result).value();
}

void Batcher::run_batches() {
  for (Jobs batch = take_batch(); !batch.empty(); batch = take_batch()) {
    if (batch.size() == 1) {
      answer_alone(batch.front());
    } else {
      answer_batch(batch);
    }
  }
}

Batcher::Jobs Batcher::take_batch() {
  std::unique_lock lock(mutex_);
  arrived_.wait(lock, [&] { return ending_ || !queue_.empty(); });
  if (queue_.empty()) return {};
  Jobs batch = {std::move(queue_.front())};
  queue_.pop_front();
  const Job& oldest = *batch.front();
  if (!oldest.joins) return batch;
  int64_t rows = oldest.rows;
  if (gather(batch, rows) || options_.max_wait == Duration(0)) return batch;
  clock_.wait_until(lock, joined_, oldest.arrived + options_.max_wait,
                    [&] { return gather(batch, rows) || ending_; });
  return batch;
}

bool Batcher::gather(Jobs& batch, int64_t& rows) {
  const std::string& key = batch.front()->key;
  for (auto at = queue_.begin(); at != queue_.end() && rows < options_.max_rows;) {
    if ((*at)->key != key) {
      ++at;
      continue;
    }
    // A request that does not fit is the first of the next batch, before the requests after it.
    if (rows + (*at)->rows > options_.max_rows) return true;
    rows += (*at)->rows;
    batch.push_back(std::move(*at));
    at = queue_.erase(at);
  }
  return rows >= options_.max_rows;
}

std::vector<Arrays> Batcher::compute(const Jobs& batch) {
  Arrays joined;
  int64_t rows = 0;
  for (const auto& entry : batch.front()->inputs) {
    std::vector<const Array*> parts;
    for (const auto& job : batch) parts.push_back(&job->inputs.at(entry.first));
    joined.emplace(entry.first, join_rows(parts));
    rows = joined.at(entry.first).rows();
  }
  const Arrays outputs = run_(batch.front()->signature, joined);
  for (const auto& [name, array] : outputs) {
    if (array.shape.empty() || array.rows() != rows) {
      throw internal_error(fmt::format("output '{}' has not a row for each of {}", name, rows));
    }
  }
  std::vector<Arrays> answers;
  int64_t first = 0;
  for (const auto& job : batch) {
    answers.push_back(slice_all(outputs, first, job->rows));
    first += job->rows;
  }
  metrics_.observe_batch(static_cast<int64_t>(batch.size()), rows);
  return answers;
}

void Batcher::answer_batch(const Jobs& batch) {
  std::vector<Arrays> answers;
  try {
    answers = compute(batch);
  } catch (const std::exception&) {
    // One request may spoil the answers of all; which one shows when each runs by itself.
    for (const auto& job : batch) answer_alone(job);
    return;
  }
  for (size_t at = 0; at < batch.size(); ++at) deliver(*batch[at], std::move(answers[at]));
}

void Batcher::answer_alone(const std::shared_ptr<Job>& job) {
  {
    const std::lock_guard lock(mutex_);
    if (job->given_up) return;
  }
  metrics_.observe_batch(1, job->rows);
  try {
    deliver(*job, run_(job->signature, job->inputs));
  } catch (const Error& error) {
    deliver(*job, error);
  } catch (const std::exception& error) {
    deliver(*job, internal_error(fmt::format("the model failed: {}", error.what())));
  }
}

void Batcher::deliver(Job& job, Result<Arrays> result) {
  const std::lock_guard lock(mutex_);
  job.result = std::move(result);
  job.answered.notify_one();
}

}  // namespace muster::inline v0_1::serve
