#include "muster/tensor/threads.h"

#include <ATen/Parallel.h>
#include <dlfcn.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "muster/base/thread_count.h"
#include "muster/cluster/resolved_cluster.h"

namespace muster::inline v0_1 {
namespace {

std::atomic<int> configured{0};

// Reads the first number of a list. OpenMP itself complains about text that is not a number.
int threads_of_openmp() {
  const char* text = std::getenv("OMP_NUM_THREADS");
  return text == nullptr ? 0 : std::atoi(text);
}

// The cores of this process: among those it may use, its share if a launcher started several
// processes on this machine and has not bound each to cores of its own.
int own_cores() {
  cpu_set_t set;
  const auto all = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  const int usable = sched_getaffinity(0, sizeof(set), &set) == 0
                         ? CPU_COUNT(&set)
                         : static_cast<int>(std::thread::hardware_concurrency());
  if (usable < all) return usable;
  return usable / cluster::local_place(Environment::process()).size;
}

}  // namespace

int set_threads(int threads) {
  if (threads <= 0) threads = threads_asked_for(Environment::process()).value_or(0);
  if (threads <= 0) threads = threads_of_openmp();
  if (threads <= 0) threads = own_cores();
  if (threads <= 0) threads = 1;
  configured = threads;
  enter_thread();
  return threads;
}

int num_threads() {
  const int threads = configured.load();
  return threads > 0 ? threads : set_threads(0);
}

void enter_thread() {
  const int threads = num_threads();
  at::set_num_threads(threads);
  // OpenBLAS keeps a count of its own, which at::set_num_threads only reaches when LibTorch was
  // built against it.
  using SetThreads = void (*)(int);
  static const auto set_blas =
      reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "openblas_set_num_threads"));
  if (set_blas != nullptr) set_blas(threads);
}

}  // namespace muster::inline v0_1
