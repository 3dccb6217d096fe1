// A loop of LibTorch that keeps its reader and its main(), on one worker or several. A thread of
// the reader reads rows of a text file ahead; each worker parses its part of them. The position of
// the reader is in the checkpoint. The gradients of two batches are added up for each step. main()
// handles signals and errors itself. If FILE does not exist, the program writes one.
//
//   own_reader [FILE [MODEL_DIR [STEPS]]]
//
// Expected: the weights are near 2, -1 and 0.5; any number of workers prints the same numbers. A
// run that is stopped continues at the next row.
#include <muster/parallel.h>
#include <torch/torch.h>

#include <atomic>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

constexpr int64_t kRows = 4096, kBatch = 32, kBatches = 2;

std::atomic<bool> stop_asked{false};

// Reads the rows of a file again and again, on a thread of its own.
class Reader {
 public:
  explicit Reader(std::string path) : path_(std::move(path)) { begin(0); }
  ~Reader() { end(); }

  // The rows of the next batch, as texts.
  std::vector<std::string> next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return static_cast<int64_t>(rows_.size()) >= kBatch; });
    std::vector<std::string> batch(rows_.begin(), rows_.begin() + kBatch);
    rows_.erase(rows_.begin(), rows_.begin() + kBatch);
    position_ += kBatch;
    changed_.notify_all();
    return batch;
  }

  // The number of rows that next() has returned.
  int64_t position() const { return position_; }
  void go_to(int64_t position) {
    end();
    begin(position);
  }

 private:
  void begin(int64_t position) {
    position_ = position;
    ending_ = false;
    rows_.clear();
    thread_ = std::thread([this, skip = position % kRows] { read(skip); });
  }
  void end() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  void read(int64_t skip) {
    while (true) {
      std::ifstream file(path_);
      for (std::string row; std::getline(file, row);) {
        if (skip-- > 0) continue;
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return ending_ || rows_.size() < 4 * kBatch; });
        if (ending_) return;
        rows_.push_back(row);
        changed_.notify_all();
      }
    }
  }

  const std::string path_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> rows_;
  bool ending_ = false;
  int64_t position_ = 0;
  std::thread thread_;
};

// Features [n, 3] and targets [n, 1] of the rows of this worker.
std::pair<torch::Tensor, torch::Tensor> parsed(const std::vector<std::string>& rows, int rank,
                                               int workers) {
  std::vector<double> numbers;
  for (size_t i = static_cast<size_t>(rank); i < rows.size(); i += static_cast<size_t>(workers)) {
    std::istringstream row(rows[i]);
    for (double number; row >> number;) numbers.push_back(number);
  }
  const auto all = torch::tensor(numbers, torch::kFloat64).view({-1, 4});
  return {all.slice(1, 0, 3), all.slice(1, 3)};
}

void train(const std::string& path, const std::string& directory, int64_t steps) {
  muster::Cluster cluster({.cancelled = [] { return stop_asked.load(); }});
  torch::manual_seed(1);
  torch::nn::Linear model(3, 1);
  model->to(torch::kFloat64);
  auto net = cluster.data_parallel(model);
  torch::optim::SGD sgd(model->parameters(), torch::optim::SGDOptions(0.05));
  Reader reader(path);
  auto checkpoint = cluster.checkpoint(directory);
  checkpoint.add("net", net)
      .add("sgd", sgd)
      .add(
          "reader", [&] { return std::to_string(reader.position()); },
          [&](const std::string& position) { reader.go_to(std::stoll(position)); });

  int64_t step = checkpoint.restore();
  for (; step < steps && !cluster.should_stop(); ++step) {
    sgd.zero_grad();
    torch::Tensor sum = torch::zeros({}, torch::kFloat64);
    const auto add_batch = [&] {
      const auto [x, y] = parsed(reader.next(), cluster.rank(), cluster.size());
      const auto loss = torch::mse_loss(net(x), y) / kBatches;
      loss.backward();
      sum += loss.detach();
    };
    for (int64_t batch = 1; batch < kBatches; ++batch) {
      const auto alone = net.no_sync();  // the gradients stay here until the last batch
      add_batch();
    }
    add_batch();
    sgd.step();
    if ((step + 1) % 50 == 0) {
      const double loss = cluster.all_reduce(sum, muster::ReduceOp::kMean).item<double>();
      if (cluster.is_chief()) std::printf("step %ld  loss %.5f\n", long(step + 1), loss);
    }
  }
  checkpoint.save(step);
  if (!cluster.is_chief()) return;
  const auto weights = model->weight.flatten();
  std::printf("weights %.3f %.3f %.3f\n", weights[0].item<double>(), weights[1].item<double>(),
              weights[2].item<double>());
}

// Rows of three numbers and 2 a - b + c / 2 with noise.
void write_rows(const std::string& path) {
  torch::manual_seed(7);
  const auto x = torch::randn({kRows, 3}, torch::kFloat64);
  const auto noise = torch::randn({kRows}, torch::kFloat64) * 0.1;
  std::ofstream file(path + ".new");
  for (int64_t i = 0; i < kRows; ++i) {
    const double a = x[i][0].item<double>(), b = x[i][1].item<double>(), c = x[i][2].item<double>();
    file << a << ' ' << b << ' ' << c << ' ' << 2 * a - b + c / 2 + noise[i].item<double>() << '\n';
  }
  file.close();
  std::filesystem::rename(path + ".new", path);
}

int main(int argc, char** argv) {
  const std::string path = argc > 1 ? argv[1] : "own_reader.txt";
  std::signal(SIGTERM, [](int) { stop_asked = true; });
  std::signal(SIGINT, [](int) { stop_asked = true; });
  try {
    if (!std::filesystem::exists(path)) write_rows(path);
    train(path, argc > 2 ? argv[2] : "own_reader_model", argc > 3 ? std::stoll(argv[3]) : 200);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "own_reader: %s\n", error.what());
    return 1;
  }
  return 0;
}
