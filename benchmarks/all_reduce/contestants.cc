#include "benchmarks/all_reduce/contestants.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <vector>

#include "benchmarks/all_reduce/commands.h"
#include "benchmarks/support/step_pacer.h"
#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/collectives/shared_memory_communicator.h"
#include "muster/collectives/tcp_communicator.h"
#include "muster/collectives/thread_communicator.h"
#include "muster/tensor/libtorch.h"

namespace muster::bench {
namespace {

using std::chrono::milliseconds;

// A rendezvous in a directory: enough for processes of one machine that only meet once.
class DirectoryStore : public KeyValueStore {
 public:
  explicit DirectoryStore(std::string stem) : stem_(std::move(stem)) {}

  void set(const std::string& key, const std::string& value) override {
    const std::string aside = path(key) + fmt::format(".{}", getpid());
    std::ofstream(aside, std::ios::binary) << value;
    std::filesystem::rename(aside, path(key));
  }
  std::string get(const std::string& key, milliseconds timeout) override {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    while (!check(key)) {
      if (std::chrono::steady_clock::now() > deadline) {
        throw Error(ErrorKind::kTimeout, "no key " + key);
      }
      std::this_thread::sleep_for(milliseconds(2));
    }
    std::ifstream file(path(key), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  int64_t add(const std::string&, int64_t) override {
    throw internal_error("this store does not count");
  }
  bool check(const std::string& key) override { return std::filesystem::exists(path(key)); }
  bool erase(const std::string& key) override { return std::filesystem::remove(path(key)); }

 private:
  std::string path(const std::string& key) const {
    std::string name = key;
    for (char& c : name) c = c == '/' ? '_' : c;
    return stem_ + ".key." + name;
  }
  const std::string stem_;
};

// A lower bound for every transport over private or shared memory: the buffers lie in memory that
// all ranks have mapped; each rank reads its share of every buffer once and writes the sum to all
// of them, between two barriers. No checks, no queue, no timeouts.
void be_the_limit(const std::string& stem, int rank, int size) {
  const std::string path = "/dev/shm/" + std::filesystem::path(stem).filename().string();
  const int64_t bytes = 4096 + size * kLargest;
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0 || ftruncate(file, bytes) != 0) throw from_errno(errno, "cannot make " + path);
  auto* memory = static_cast<std::byte*>(
      mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
  if (memory == MAP_FAILED) throw from_errno(errno, "cannot map " + path);
  madvise(memory, static_cast<size_t>(bytes), MADV_HUGEPAGE);
  SharedBarrier barrier(file, rank, size);  // its page is the first
  std::vector<float*> buffers;
  for (int r = 0; r < size; ++r) {
    buffers.push_back(reinterpret_cast<float*>(memory + 4096 + r * kLargest));
  }
  std::memset(buffers[static_cast<size_t>(rank)], 0, kLargest);
  barrier.wait();
  std::filesystem::remove(path);
  obey(stem, rank, [&](int64_t count_bytes) {
    const int64_t lines = (count_bytes / 4 + 15) / 16;
    const int64_t begin = lines * rank / size * 16, end = lines * (rank + 1) / size * 16;
    barrier.wait();
    if (size == 2) {
      float* const a = buffers[0];
      float* const b = buffers[1];
#pragma GCC ivdep
      for (int64_t i = begin; i < end; ++i) a[i] = b[i] = a[i] + b[i];
    } else {
      constexpr int64_t kBlock = 1024;
      alignas(64) float sum[kBlock];
      for (int64_t from = begin; from < end; from += kBlock) {
        const int64_t n = std::min(kBlock, end - from);
        std::memcpy(sum, buffers[0] + from, static_cast<size_t>(n) * 4);
        for (int r = 1; r < size; ++r) {
          const float* in = buffers[static_cast<size_t>(r)] + from;
          for (int64_t i = 0; i < n; ++i) sum[i] += in[i];
        }
        for (float* buffer : buffers) std::memcpy(buffer + from, sum, static_cast<size_t>(n) * 4);
      }
    }
    barrier.wait();
  });
}

// The address of each rank, in this order; else all are on loopback.
std::string address_of(int rank) {
  const char* addresses = std::getenv("BENCH_ADDRESSES");
  std::istringstream words(addresses == nullptr ? "" : addresses);
  std::string address = "127.0.0.1";
  for (int r = 0; r <= rank && words; ++r) words >> address;
  return address;
}

void be_muster(const std::string& stem, int rank, Communicator& group, bool own_memory) {
  const at::Tensor buffer = own_memory ? group.allocate(kLargest).view(at::kFloat)
                                       : torch::zeros({kLargest / 4}, at::kFloat);
  at::Tensor part;
  obey(stem, rank, [&](int64_t bytes) {
    if (!part.defined() || part.numel() != bytes / 4) part = buffer.slice(0, 0, bytes / 4);
    group.all_reduce(part).wait();
  });
  group.barrier().wait();
}

void be_gloo(const std::string& stem, int rank, int size) {
  auto options = c10d::ProcessGroupGloo::Options::create(std::chrono::seconds(60));
  options->threads = 1;
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(address_of(rank)));
  auto store = c10::make_intrusive<c10d::FileStore>(stem + ".store", size);
  c10d::ProcessGroupGloo group(store, rank, size, options);
  const at::Tensor buffer = torch::zeros({kLargest / 4}, at::kFloat);
  std::vector<at::Tensor> part(1);
  obey(stem, rank, [&](int64_t bytes) {
    if (!part[0].defined() || part[0].numel() != bytes / 4) part[0] = buffer.slice(0, 0, bytes / 4);
    group.allreduce(part)->wait();
  });
}

}  // namespace

void take_part(const std::string& way, const std::string& stem, int rank, int size) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  stay_on_core(rank);
  DirectoryStore store(stem);
  if (way == kLimit) {
    be_the_limit(stem, rank, size);
  } else if (way == kOwnMemory || way == kAnyMemory) {
    const auto group =
        make_shared_memory_communicator({.rendezvous = &store, .rank = rank, .size = size});
    be_muster(stem, rank, *group, way == kOwnMemory);
  } else if (way == kOverTcp) {
    const auto group = make_tcp_communicator(
        {.rendezvous = &store, .rank = rank, .size = size, .address = address_of(rank)});
    be_muster(stem, rank, *group, true);
  } else if (way == kGloo) {
    be_gloo(stem, rank, size);
  } else if (way == kOverThreads) {
    auto groups = make_thread_communicators({.size = size});
    std::vector<std::thread> threads;
    for (int r = 0; r < size; ++r) {
      threads.emplace_back([&, r] {
        stay_on_core(r);
        be_muster(stem, r, *groups[static_cast<size_t>(r)], true);
      });
    }
    for (std::thread& thread : threads) thread.join();
  } else {
    throw invalid_argument("there is no contestant " + way);
  }
}

}  // namespace muster::bench
