// Parameter servers: how steps grow with workers whose computing is replaced by waiting, how fast
// weights and gradients travel compared with what a plain copy over TCP and in memory takes, and
// what rows of a large table cost compared with a hash map in the same process. Servers and workers
// are threads of this process that talk over the transport that processes of one host take. At last
// clusters of processes, compared with those of tf.estimator.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "benchmarks/servers/cluster_rates.h"
#include "muster/base/error.h"
#include "muster/base/free_ports.h"
#include "muster/base/random.h"
#include "muster/distribute/replica.h"
#include "muster/distribute/start_options.h"
#include "muster/distribute/strategy.h"
#include "muster/optim/optimizer.h"
#include "muster/optim/train_op.h"
#include "muster/ps/parameter_server.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/threads.h"

namespace muster::bench {
namespace {

using distribute::ParameterServerOptions;
using distribute::StartOptions;
using SteadyClock = std::chrono::steady_clock;

double seconds_of(const std::function<void()>& work) {
  const auto begin = SteadyClock::now();
  work();
  return std::chrono::duration<double>(SteadyClock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<long>(values.size() / 2));
  return values[values.size() / 2];
}

// A variable of the models below.
VariableSpec weights(const std::string& name, Shape shape, bool row_sparse = false) {
  return {.name = name,
          .shape = std::move(shape),
          .initializer = [](const Shape& of, DType dtype,
                            RandomKey) { return torch::zeros(of, at::dtype(dtype)); },
          .row_sparse = row_sparse};
}

// A step of a model: its loss, from the variables of `store`.
using LossOf = std::function<Tensor(VariableStore& store)>;

optim::TrainOp train_op_of(const LossOf& loss_of, VariableStore& store) {
  return optim::sgd({.learning_rate = 1e-3}).minimize(loss_of(store));
}

// A cluster on this machine, as threads.
class Cluster {
 public:
  Cluster(int workers, int servers) : workers_(workers) {
    const std::vector<int> ports = free_ports(workers + servers);
    const auto address = [&](int i) {
      return fmt::format("127.0.0.1:{}", ports[static_cast<size_t>(i)]);
    };
    common_.workers.clear();
    for (int w = 0; w < workers; ++w) {
      common_.workers.push_back(w == 0 ? cluster::Task{"chief", 0}
                                       : cluster::Task{"worker", w - 1});
      common_.addresses.push_back(address(w));
    }
    for (int s = 0; s < servers; ++s) common_.ps_addresses.push_back(address(workers + s));
    common_.num_workers = workers;
    common_.num_ps = servers;
    common_.coordinator_address = address(0);
  }
  StartOptions worker(int rank) const {
    StartOptions start{.cluster = common_, .join_timeout = 60};
    start.cluster.task = common_.workers[static_cast<size_t>(rank)];
    start.cluster.is_chief = rank == 0;
    start.cluster.rank = rank;
    return start;
  }
  StartOptions server(int index) const {
    StartOptions start{.cluster = common_, .join_timeout = 60};
    start.cluster.task = {"ps", index};
    start.cluster.is_chief = false;
    start.cluster.rank = -1;
    return start;
  }
  int workers() const { return workers_; }
  int servers() const { return common_.num_ps; }

 private:
  cluster::ResolvedCluster common_;
  int workers_;
};

// How a run is made: `steps` steps of each worker, after `warm_up` that do not count.
struct Course {
  int64_t warm_up = 0;
  int64_t steps = 0;
  std::function<void()> between = [] {};  // in front of each step of the chief, outside of its time
  std::function<void()> compute = [] {};  // within each step
  ParameterServerOptions options = {};
};

// The seconds of each counted step of the chief, and of all steps together.
struct Times {
  std::vector<double> steps{};
  double all = 0;
};

Times run(const Cluster& cluster, const LossOf& loss_of, const Course& course) {
  const auto strategy = distribute::parameter_server(course.options);
  Times times;
  std::vector<std::thread> threads;
  for (int s = 0; s < cluster.servers(); ++s) {
    threads.emplace_back([&, s] {
      strategy->serve(cluster.server(s), [&](VariableStore& store, const std::string&) {
        return train_op_of(loss_of, store);
      });
    });
  }
  for (int w = 0; w < cluster.workers(); ++w) {
    threads.emplace_back([&, w] {
      enter_thread();
      const auto replica = strategy->start(cluster.worker(w));
      {
        torch::NoGradGuard no_grad;
        replica->finish_build(train_op_of(loss_of, replica->variables()));
      }
      distribute::SharedRun& shared = *replica->shared();
      (void)shared.begin({.last_step = [&](int64_t) {
        return std::optional((course.warm_up + course.steps) * cluster.workers());
      }});
      SteadyClock::time_point begin;
      int64_t made = 0;
      while (true) {
        if (w == 0) course.between();
        const auto start = SteadyClock::now();
        if (made == course.warm_up) begin = start;
        if (!shared.begin_step()) break;
        course.compute();
        const optim::TrainOp op = train_op_of(loss_of, replica->variables());
        (void)replica->train_step(
            {.train_op = &op, .loss = op.entries[0].loss, .reduction = ReduceOp::kSum, .rows = 1});
        if (w == 0 && made >= course.warm_up)
          times.steps.push_back(std::chrono::duration<double>(SteadyClock::now() - start).count());
        ++made;
      }
      if (w == 0) times.all = std::chrono::duration<double>(SteadyClock::now() - begin).count();
      (void)shared.end_steps(distribute::SharedRun::End::kOver, {});
      replica->finish();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return times;
}

// The same step in one process, without servers.
class Alone {
 public:
  explicit Alone(const LossOf& loss_of)
      : loss_of_(loss_of), replica_(distribute::one_device()->start({})) {
    torch::NoGradGuard no_grad;
    replica_->finish_build(train_op_of(loss_of_, replica_->variables()));
  }
  // Makes one; returns its seconds.
  double step() {
    return seconds_of([&] {
      const optim::TrainOp op = train_op_of(loss_of_, replica_->variables());
      (void)replica_->train_step(
          {.train_op = &op, .loss = op.entries[0].loss, .reduction = ReduceOp::kSum, .rows = 1});
    });
  }

 private:
  const LossOf& loss_of_;
  const std::unique_ptr<distribute::Replica> replica_;
};

// A loss that depends on all of them, and costs next to nothing.
Tensor touch(VariableStore& store, const std::vector<VariableSpec>& specs) {
  Tensor loss = torch::zeros({});
  for (const VariableSpec& spec : specs) loss = loss + store.get_or_create(spec).value().sum();
  return loss;
}

void scaling(bool quick) {
  // The weights of the MNIST network.
  const std::vector<VariableSpec> specs = {
      weights("conv/kernel", {3, 3, 1, 32}), weights("conv/bias", {32}),
      weights("dense/kernel", {5408, 64}),   weights("dense/bias", {64}),
      weights("logits/kernel", {64, 10}),    weights("logits/bias", {10})};
  const LossOf loss_of = [&](VariableStore& store) { return touch(store, specs); };
  constexpr auto kCompute = std::chrono::milliseconds(50);
  const int64_t steps = quick ? 20 : 100;
  fmt::print(
      "### Steps of workers whose computing is a wait of {} ms\n\n"
      "| servers | workers | global_step/sec | of linear |\n|---|---|---|---|\n",
      kCompute.count());
  for (const int servers : {1, 2}) {
    double alone = 0;
    for (const int workers : {1, 2, 4}) {
      const Times times =
          run(Cluster(workers, servers), loss_of, {.warm_up = 5, .steps = steps, .compute = [&] {
                                                     std::this_thread::sleep_for(kCompute);
                                                   }});
      const double rate = static_cast<double>(steps * workers) / times.all;
      if (workers == 1) alone = rate;
      fmt::print("| {} | {} | {:.1f} | {:.1f} % |\n", servers, workers, rate,
                 100 * rate / (alone * workers));
      std::fflush(stdout);
    }
  }
  fmt::print("\n");
}

// Steps of one worker, with and without the next one being computed meanwhile.
void overlap(bool quick) {
  constexpr auto kCompute = std::chrono::milliseconds(50);
  const std::vector<VariableSpec> specs = {weights("dense/kernel", {5000, 5000})};
  const LossOf loss_of = [&](VariableStore& store) { return touch(store, specs); };
  const int64_t steps = quick ? 5 : 15;
  const int rounds = quick ? 3 : 5;
  fmt::print(
      "### Steps of a model of 100 MB whose computing is a wait of {} ms, and of 100 MB to add "
      "up\n\n"
      "| | steps/s | where they overlap | ratio |\n|---|---|---|---|\n",
      kCompute.count());
  for (const bool shared : {true, false}) {
    for (const int servers : {1, 2}) {
      std::vector<double> apart, together, ratios;
      for (int round = 0; round < rounds; ++round) {
        const auto rate = [&](bool overlap) {
          const Times times = run(Cluster(1, servers), loss_of,
                                  {.warm_up = 3,
                                   .steps = steps,
                                   .compute = [&] { std::this_thread::sleep_for(kCompute); },
                                   .options = {.shared_memory = shared, .overlap = overlap}});
          return static_cast<double>(steps) / times.all;
        };
        apart.push_back(rate(false));
        together.push_back(rate(true));
        ratios.push_back(together.back() / apart.back());
      }
      const auto [least, most] = std::ranges::minmax(ratios);
      fmt::print("| {} server(s), over {} | {:.1f} | {:.1f} | {:.2f} ({:.2f} to {:.2f}) |\n",
                 servers, shared ? "memory" : "sockets", median(apart), median(together),
                 median(ratios), least, most);
      std::fflush(stdout);
    }
  }
  fmt::print("\n");
}

// Seconds to move `bytes` over a connection of loopback, from one thread to another.
double tcp_copy(std::vector<std::byte>& from, std::vector<std::byte>& to) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{
      .sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener, generic, size) != 0 || listen(listener, 1) != 0 ||
      getsockname(listener, generic, &size) != 0)
    throw Error(ErrorKind::kUnavailable, "no port of loopback is free");
  const int out = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(out, generic, size) != 0)
    throw Error(ErrorKind::kUnavailable, "loopback does not answer");
  const int in = accept(listener, nullptr, nullptr);
  const double seconds = seconds_of([&] {
    std::thread sender([&] {
      for (size_t at = 0; at < from.size();) {
        const ssize_t n = send(out, from.data() + at, from.size() - at, MSG_NOSIGNAL);
        if (n <= 0) return;
        at += static_cast<size_t>(n);
      }
    });
    for (size_t at = 0; at < to.size();) {
      const ssize_t n = recv(in, to.data() + at, to.size() - at, 0);
      if (n <= 0) break;
      at += static_cast<size_t>(n);
    }
    sender.join();
  });
  for (const int fd : {listener, out, in}) close(fd);
  return seconds;
}

void dense(bool quick) {
  constexpr int64_t kElements = 25'000'000;  // 100 MB
  const std::vector<VariableSpec> specs = {weights("dense/kernel", {5000, 5000})};
  const LossOf loss_of = [&](VariableStore& store) { return touch(store, specs); };
  constexpr int64_t kWarmUp = 3;
  const int64_t steps = quick ? 10 : 40;
  constexpr double kMegabytes = 4e-6 * kElements;
  std::vector<std::byte> from(4 * kElements), to(4 * kElements);
  Alone alone(loss_of);
  fmt::print(
      "### 100 MB of weights to a worker, and 100 MB of gradients back\n\n"
      "| | ms | GB/s | of TCP | of memory |\n|---|---|---|---|---|\n");
  // Others take turns with each step, so that whatever the machine does is done to all of them.
  // What servers add to a step is the way of weights and gradients.
  std::vector<double> copies, tcp, here;
  for (const bool shared : {true, false}) {
    for (const int servers : {1, 2}) {
      std::vector<double> own_copies, own_tcp, own_here;
      const auto between = [&] {
        own_copies.push_back(2 *
                             seconds_of([&] { std::memcpy(to.data(), from.data(), from.size()); }));
        own_tcp.push_back(2 * tcp_copy(from, to));
        own_here.push_back(alone.step());
      };
      Times times = run(Cluster(1, servers), loss_of,
                        {.warm_up = kWarmUp,
                         .steps = steps,
                         .between = between,
                         .options = {.shared_memory = shared}});
      for (size_t i = 0; i < times.steps.size(); ++i) times.steps[i] -= own_here[kWarmUp + i];
      const double added = median(times.steps);
      fmt::print(
          "| what {} server(s) add to a step, over {} | {:.1f} | {:.2f} | {:.0f} % | {:.0f} % |\n",
          servers, shared ? "memory" : "sockets", 1e3 * added, 2e-3 * kMegabytes / added,
          100 * median(own_tcp) / added, 100 * median(own_copies) / added);
      std::fflush(stdout);
      copies.insert(copies.end(), own_copies.begin(), own_copies.end());
      tcp.insert(tcp.end(), own_tcp.begin(), own_tcp.end());
      here.insert(here.end(), own_here.begin(), own_here.end());
    }
  }
  const double copy = median(copies), over_tcp = median(tcp);
  for (const auto& [name, seconds] :
       {std::pair<const char*, double>{"copied in memory, twice", copy},
        {"copied over TCP, twice", over_tcp}}) {
    fmt::print("| {} | {:.1f} | {:.2f} | {:.0f} % | {:.0f} % |\n", name, 1e3 * seconds,
               2e-3 * kMegabytes / seconds, 100 * over_tcp / seconds, 100 * copy / seconds);
  }
  fmt::print("\nThe step itself, with its update and without servers, takes {:.1f} ms.\n\n",
             1e3 * median(here));
}

void rows(bool quick) {
  const int64_t table = quick ? 1'000'000 : 10'000'000;
  constexpr int64_t kWidth = 64, kBatch = 1024, kBatches = 64;
  // The first access to a page waits for the system.
  constexpr int64_t kWarmUp = kBatches;
  // Zipf: the id of rank r has a share of 1 / r.
  std::vector<Tensor> batches;
  Random random(derive_key(3, {id_of("zipf")}));
  for (int b = 0; b < kBatches; ++b) {
    Tensor ids = torch::empty({kBatch}, at::kLong);
    for (int64_t i = 0; i < kBatch; ++i) {
      const double u = random.uniform();
      ids[i] = static_cast<int64_t>(std::exp(u * std::log(static_cast<double>(table)))) - 1;
    }
    batches.push_back(ids);
  }
  const VariableSpec spec = weights("table/embeddings", {table, kWidth}, /*row_sparse=*/true);
  size_t next = 0;
  const LossOf loss_of = [&](VariableStore& store) {
    return store.get_or_create(spec).rows(batches[next++ % batches.size()]).sum();
  };
  const int64_t steps = quick ? 50 : 2000;
  fmt::print(
      "### Rows of a table of {} x {}, batches of {} ids (Zipf)\n\n"
      "| | rows/s | of the hash map |\n|---|---|---|\n",
      table, kWidth, kBatch);
  std::unordered_map<int64_t, std::vector<float>> map;
  const auto map_step = [&](const Tensor& ids) {
    std::vector<float> read(kBatch * kWidth);
    return seconds_of([&] {
      const int64_t* numbers = ids.data_ptr<int64_t>();
      for (int64_t r = 0; r < kBatch; ++r) {
        std::vector<float>& row = map.try_emplace(numbers[r], kWidth, 0.0F).first->second;
        std::copy(row.begin(), row.end(), read.begin() + r * kWidth);
      }
      for (int64_t r = 0; r < kBatch; ++r) {
        std::vector<float>& row = map.at(numbers[r]);
        for (float& value : row) value -= 1e-3F;
      }
    });
  };
  // In front of each contestant, by itself: in turn with others it would lose its caches to them.
  const auto map_alone = [&] {
    std::vector<double> mapped;
    for (int round = 0; round < 8; ++round) {
      for (const Tensor& ids : batches) mapped.push_back(map_step(ids));
    }
    return median(mapped);
  };
  const auto line = [](const std::string& name, double step, double mapped) {
    fmt::print("| {} | {:.0f} | {:.0f} % |\n", name, static_cast<double>(kBatch) / step,
               100 * mapped / step);
    std::fflush(stdout);
  };
  double mapped = map_alone();
  line("a hash map in the same process", mapped, mapped);
  {
    Alone alone(loss_of);
    std::vector<double> here;
    for (int64_t i = 0; i < kWarmUp + steps; ++i) here.push_back(alone.step());
    line("the same step in one process", median({here.begin() + kWarmUp, here.end()}), mapped);
  }
  for (const bool shared : {true, false}) {
    for (const int servers : {1, 2}) {
      next = 0;
      mapped = map_alone();
      const Times times =
          run(Cluster(1, servers), loss_of,
              {.warm_up = kWarmUp, .steps = steps, .options = {.shared_memory = shared}});
      line(fmt::format("{} server(s), over {}", servers, shared ? "memory" : "sockets"),
           median(times.steps), mapped);
    }
  }
  fmt::print("\nA row takes {} bytes of a server, without slots.\n\n", kWidth * 4);
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  bool quick = false, task = false;
  std::string only;
  muster::bench::ClusterTask cluster;
  CLI::App app("Parameter servers: steps, weights, gradients and rows.");
  app.add_flag("--quick", quick, "Few steps, to see that it works");
  app.add_option("--only", only, "One part: scaling, overlap, dense, rows or clusters");
  app.add_flag("--task", task)->group("");
  app.add_option("--meet", cluster.meet)->group("");
  app.add_option("--workers", cluster.workers)->group("");
  app.add_option("--waiting_steps", cluster.waiting_steps)->group("");
  app.add_option("--max_steps", cluster.max_steps)->group("");
  app.allow_extras();  // options that all benchmarks are given
  CLI11_PARSE(app, argc, argv);
  muster::set_threads(1);
  if (task) {
    muster::bench::train_cluster_task(cluster);
    return 0;
  }
  fmt::print("## Parameter servers\n\n");
  if (only.empty() || only == "scaling") muster::bench::scaling(quick);
  if (only.empty() || only == "overlap") muster::bench::overlap(quick);
  if (only.empty() || only == "dense") muster::bench::dense(quick);
  if (only.empty() || only == "rows") muster::bench::rows(quick);
  try {
    if (only.empty() || only == "clusters") {
      muster::bench::compare_clusters(std::filesystem::read_symlink("/proc/self/exe"), quick);
    }
  } catch (const muster::Error& error) {
    fmt::print(stderr, "error: {}\n", error.message());
    return 1;
  }
}
