// `muster serve` under 32 clients: the server on one core, the clients on another one, compared
// with the same model in a loop without a network; taking turns in one process. Prints rows per
// second, and ratios that are taken round by round.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "apps/serve/servable_model.h"
#include "muster/base/error.h"
#include "muster/base/temp_directory.h"
#include "muster/export/write_servable.h"
#include "muster/serve/http_server.h"
#include "muster/serve/model_versions.h"
#include "muster/serve/rest_api.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensor/threads.h"

namespace muster {
namespace {

constexpr int64_t kFeatures = 64, kHidden = 256, kClasses = 10;
constexpr int kClients = 32, kRounds = 9;
constexpr std::chrono::milliseconds kTurn{1000};

// Two layers of 256 in front of ten classes.
std::string export_model(const std::string& directory) {
  const Tensor first = torch::randn({kFeatures, kHidden}) / 8;
  const Tensor second = torch::randn({kHidden, kHidden}) / 16;
  const Tensor third = torch::randn({kHidden, kClasses}) / 16;
  ServableSource source;
  source.receiver = raw_serving_input_receiver({{"x", {kFloat32, {kFeatures}}}});
  source.weights = {{"first", first}, {"second", second}, {"third", third}};
  source.function = [=](const ServableSource::Tensors& features) {
    const Tensor hidden = features.at("x").matmul(first).relu().matmul(second).relu();
    return std::map<std::string, ExportOutput>{
        {"serving_default", PredictOutput({{"logits", hidden.matmul(third)}})}};
  };
  const std::string folder = join_path(directory, "1");
  local_file_system().make_directories(folder).value();
  write_servable(local_file_system(), folder, source);
  return folder;
}

void pin(int core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(static_cast<size_t>(core), &cores);
  if (pthread_setaffinity_np(pthread_self(), sizeof cores, &cores) != 0)
    throw internal_error(fmt::format("cannot run on core {}", core));
}

// One connection that asks again and again.
class Client {
 public:
  Client(int port, std::string request)
      : socket_(::socket(AF_INET, SOCK_STREAM, 0)), request_(std::move(request)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
      throw from_errno(errno, "cannot connect");
  }
  ~Client() { close(socket_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Asks once, and waits for the whole answer.
  void ask() {
    if (send(socket_, request_.data(), request_.size(), MSG_NOSIGNAL) !=
        static_cast<ssize_t>(request_.size()))
      throw from_errno(errno, "cannot send");
    std::string answer;
    for (size_t end = std::string::npos; end == std::string::npos || answer.size() < end;) {
      char part[4096];
      const ssize_t count = recv(socket_, part, sizeof part, 0);
      if (count <= 0) throw internal_error("the server closed");
      answer.append(part, static_cast<size_t>(count));
      end = end_of(answer);
    }
    if (!answer.starts_with("HTTP/1.1 200 ")) throw internal_error(answer);
  }

 private:
  // The end of the answer; npos while its head is incomplete.
  static size_t end_of(const std::string& answer) {
    const size_t head = answer.find("\r\n\r\n");
    const size_t length = answer.find("Content-Length: ");
    if (head == std::string::npos || length == std::string::npos) return std::string::npos;
    return head + 4 + std::strtoull(answer.c_str() + length + 16, nullptr, 10);
  }

  const int socket_;
  const std::string request_;
};

// A server of the folder's model, and its clients' turns.
class Served {
 public:
  Served(const std::string& directory, int64_t max_rows, int clients_core)
      : clients_core_(clients_core),
        versions_(
            directory,
            [](const std::string& folder) { return std::make_shared<app::ServableModel>(folder); },
            1, {.max_rows = max_rows}, metrics_),
        api_("m", versions_, metrics_) {
    versions_.poll();
    server_ = std::make_unique<serve::HttpServer>(
        [this](const serve::HttpRequest& request) { return api_.answer(request); },
        serve::HttpServerOptions{.port = 0}, metrics_);
  }

  // Returns answers per second.
  double turn(const std::string& body) {
    const std::string request =
        fmt::format("POST /v1/models/m:predict HTTP/1.1\r\nHost: m\r\nContent-Length: {}\r\n\r\n{}",
                    body.size(), body);
    std::atomic<int64_t> answers{0};
    std::atomic<bool> done{false};
    std::vector<std::thread> threads;
    const auto begin = std::chrono::steady_clock::now();
    for (int client = 0; client < kClients; ++client) {
      threads.emplace_back([&] {
        pin(clients_core_);
        Client asking(server_->port(), request);
        for (; !done.load(); answers.fetch_add(1)) asking.ask();
      });
    }
    std::this_thread::sleep_for(kTurn);
    done.store(true);
    for (std::thread& thread : threads) thread.join();
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    return static_cast<double>(answers.load()) / time.count();
  }

 private:
  const int clients_core_;
  serve::ServingMetrics metrics_;
  serve::ModelVersions versions_;
  serve::RestApi api_;
  std::unique_ptr<serve::HttpServer> server_;
};

// Returns rows per second of the model alone, `rows` at a time.
double loop(app::ServableModel& model, int64_t rows) {
  const serve::Arrays inputs = {
      {"x", make_array(serve::ElementType::kFloat32, {rows, kFeatures},
                       std::vector<float>(static_cast<size_t>(rows * kFeatures), 0.5F))}};
  int64_t answers = 0;
  const auto begin = std::chrono::steady_clock::now();
  std::chrono::duration<double> time{0};
  for (; time < kTurn; time = std::chrono::steady_clock::now() - begin) {
    (void)model.run("serving_default", inputs);
    answers += rows;
  }
  return static_cast<double>(answers) / time.count();
}

double middle(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

struct Contestant {
  std::string name;
  std::function<double()> turn;
  std::vector<double> rates = {};
};

void run() {
  if (std::thread::hardware_concurrency() < 2) throw internal_error("two cores are needed");
  cpu_set_t cores;
  CPU_ZERO(&cores);
  sched_getaffinity(0, sizeof cores, &cores);
  std::vector<int> free;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(static_cast<size_t>(core), &cores)) free.push_back(core);
  }
  if (free.size() < 2) throw internal_error("two cores are needed, one for the clients");
  set_threads(1);
  const TempDirectory directory;
  app::ServableModel model(export_model(directory.path()));
  pin(free.front());
  Served alone(directory.path(), 1, free.back());
  Served joined(directory.path(), kClients, free.back());
  std::string body = "{\"instances\": [[0.123456";
  for (int64_t at = 1; at < kFeatures; ++at) body += fmt::format(", 0.{}", 123456 + at);
  body += "]]}";
  std::vector<Contestant> contestants = {
      {"the model in a loop, one row at a time", [&] { return loop(model, 1); }},
      {fmt::format("the model in a loop, {} rows at a time", kClients),
       [&] { return loop(model, kClients); }},
      {"muster serve, requests one by one", [&] { return alone.turn(body); }},
      {"muster serve, requests in batches", [&] { return joined.turn(body); }}};
  for (int round = 0; round < kRounds; ++round) {
    for (size_t at = 0; at < contestants.size(); ++at) {
      Contestant& each = contestants[(at + static_cast<size_t>(round)) % contestants.size()];
      each.rates.push_back(each.turn());
    }
  }
  fmt::print("### {} clients, one row of {} features each, through two layers of {}\n\n", kClients,
             kFeatures, kHidden);
  fmt::print("| | rows/s | against the loop of one row |\n|---|---|---|\n");
  for (const Contestant& each : contestants) {
    std::vector<double> ratios;
    for (size_t at = 0; at < each.rates.size(); ++at) {
      ratios.push_back(each.rates[at] / contestants.front().rates[at]);
    }
    fmt::print("| {} | {:.0f} | {:.2f} |\n", each.name, middle(each.rates), middle(ratios));
  }
  fmt::print("\n{} rounds; the server on one core, the clients on another one.\n", kRounds);
}

}  // namespace
}  // namespace muster

int main() {
  try {
    muster::run();
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return 1;
  }
}
