// Starts contestants, lets them take turns, and prints their speed, as a table and as JSON. Thread
// safety: one call at a time.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace muster::bench {

// Where a worker runs, when not on this host.
struct Host {
  std::string address;             // that the others reach it by
  std::string interface;           // with that address
  std::vector<std::string> enter;  // the command prefix that runs a command there
};

struct Contestant {
  std::string name{};               // of the row
  std::vector<std::string> argv{};  // argv[0] is a path
  std::vector<std::pair<std::string, std::string>> environment{};
  int workers = 1;            // processes, one core and one thread each
  int64_t rows = 64;          // examples a step, over all workers
  std::vector<Host> hosts{};  // by worker; none: all run here
  // Contestants with the same mark compute the same: their losses must agree after warming up.
  std::string same{};
  int cores = 1;  // of a worker that is alone
};

struct Plan {
  int launches = 3;  // every contestant is started again so often: memory lies elsewhere each time
  int pairs = 10;    // samples of each launch
  int turns = 4;     // of which a sample consists
  int steps = 50;    // of a turn
  int warm_up = 60;  // steps before the first sample
  int lead_in = 5;   // steps before each turn that do not count

  int64_t samples() const { return static_cast<int64_t>(launches) * pairs; }
  int64_t steps_per_sample() const { return static_cast<int64_t>(turns) * steps; }
};

struct Result {
  Contestant contestant{};
  std::vector<double> seconds{};  // a step, one for each sample; the slowest worker's
  std::vector<double> cpu{};      // seconds a step, over all workers and all threads
  std::vector<double> steps{};    // seconds of every single step of the first worker
  double peak_mib = 0;            // the largest memory of its processes together (VmHWM)
  double loss = 0;                // the mean of those that its turns ended with
};

// Sample i of all contestants was taken in the same moment: ratios of them are paired. Throws
// Error when a contestant dies or does not answer.
std::vector<Result> compare(const std::vector<Contestant>& contestants, const Plan& plan);

// The middle value and the interval that holds the true one with 95 %, by order statistics (signs
// of the pairs; no assumption about how they are distributed).
struct Estimate {
  double median = 0;
  double low = 0;
  double high = 0;
};
Estimate estimate(std::vector<double> values);
// Estimates the ratio a[i] / b[i].
Estimate estimate_ratio(const std::vector<double>& a, const std::vector<double>& b);
double quantile(std::vector<double> values, double q);

// How fast `result` was against `other`, by wall clock and by CPU time, as a line on standard
// output.
void print_speed_against(const Result& result, const Result& other);

// Prints their memory, each as a part of that of `reference`.
void print_memory(const std::string& benchmark, const std::string& title,
                  const std::vector<Result>& results, size_t reference,
                  const std::string& json_path);

// A Markdown table on standard output, a row for each result; "speed" is against result
// `reference`. The same as lines of JSON, appended to `json_path` unless it is empty.
void print_table(const std::string& benchmark, const std::string& title,
                 const std::vector<Result>& results, size_t reference,
                 const std::string& json_path);

// Compares contestants of one core, and prints the table, how many times as fast the first one was
// as each other one, and their memory. `benchmark` as print_table() takes it.
void compare_with_first(const std::string& benchmark, const std::string& title,
                        const std::vector<Contestant>& contestants, const Plan& plan,
                        const std::string& json_path);

}  // namespace muster::bench
