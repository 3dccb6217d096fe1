#include "muster/base/thread_stacks.h"

#include <cxxabi.h>
#include <dirent.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef MUSTER_HAS_LIBBACKTRACE
#include <backtrace.h>
#endif

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

#include "muster/base/strings.h"

namespace muster::inline v0_1 {
namespace {

constexpr size_t kThreads = 256;
constexpr int kFrames = 48;
// The handler, and what the kernel puts before it.
constexpr int kOwnFrames = 2;

// Where one thread writes its stack. `turn` is 2n when the slot waits in turn n, and 2n + 1 when
// its thread has written; a thread that answers late finds another turn, and writes nothing.
struct StackSlot {
  std::atomic<int64_t> thread{0};
  std::atomic<uint64_t> turn{0};
  std::atomic<bool> writing{false};
  int count = 0;
  std::array<void*, kFrames + kOwnFrames> addresses{};
};

// A signal handler can reach nothing but globals.
std::array<StackSlot, kThreads> slots;
std::atomic<uint64_t> turn_now{0};

void write_stack(int, siginfo_t*, void*) {
  const int before = errno;
  const auto self = static_cast<int64_t>(syscall(SYS_gettid));
  const uint64_t turn = turn_now.load();
  for (StackSlot& slot : slots) {
    if (slot.thread.load() != self) continue;
    slot.writing = true;
    if (slot.turn.load() == turn && turn == turn_now.load()) {
      slot.count = backtrace(slot.addresses.data(), static_cast<int>(slot.addresses.size()));
      slot.turn = turn + 1;
    }
    slot.writing = false;
    break;
  }
  errno = before;
}

// The handler stays: a late signal must not meet the default action, which ends the process.
// Returns 0 when no signal is free.
int signal_for_stacks() {
  static const int chosen = [] {
    // Its first call loads a library, which no handler may do.
    void* address = nullptr;
    (void)backtrace(&address, 1);
    for (int number = SIGRTMIN + 7; number <= SIGRTMAX; ++number) {
      struct sigaction now {};
      if (sigaction(number, nullptr, &now) != 0 || now.sa_handler != SIG_DFL) continue;
      struct sigaction action {};
      action.sa_sigaction = write_stack;
      action.sa_flags = SA_RESTART | SA_SIGINFO;
      sigfillset(&action.sa_mask);
      if (sigaction(number, &action, nullptr) == 0) return number;
    }
    return 0;
  }();
  return chosen;
}

std::vector<int64_t> other_threads() {
  std::vector<int64_t> threads;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc/self/task"), closedir);
  if (!folder) return threads;
  while (const dirent* entry = readdir(folder.get())) {
    const int64_t thread = std::atoll(entry->d_name);
    if (thread > 0 && thread != this_thread_id()) threads.push_back(thread);
  }
  return threads;
}

std::string name_of_thread(int64_t thread) {
  std::string name(64, '\0');
  std::FILE* file = std::fopen(fmt::format("/proc/self/task/{}/comm", thread).c_str(), "r");
  if (file == nullptr) return "";
  name.resize(std::fread(name.data(), 1, name.size(), file));
  std::fclose(file);
  return std::string(trim(name));
}

std::string demangled(const char* symbol) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(symbol, nullptr, nullptr, &status), std::free);
  // Templates of LibTorch fill pages.
  constexpr size_t kMostName = 160;
  std::string name = text ? text.get() : symbol;
  if (name.size() > kMostName) name = name.substr(0, kMostName) + "...";
  return name;
}

struct FrameText {
  std::string function{};
  std::string place{};  // "reader.cc:12"
};

#ifdef MUSTER_HAS_LIBBACKTRACE
// Reads symbols and lines of debug information, also of functions that nothing exports.
void look_up(uintptr_t address, FrameText& text) {
  const auto ignored = [](void*, const char*, int) {};
  // It reads files once, and cannot be freed.
  static backtrace_state* const state = backtrace_create_state(nullptr, 1, ignored, nullptr);
  if (state == nullptr) return;
  backtrace_pcinfo(
      state, address,
      [](void* data, uintptr_t, const char* file, int line, const char* function) {
        FrameText& found = *static_cast<FrameText*>(data);
        if (file != nullptr && found.place.empty()) {
          const std::string_view path(file);
          found.place = fmt::format("{}:{}", path.substr(path.rfind('/') + 1), line);
        }
        if (function != nullptr) found.function = demangled(function);
        return 0;  // the outermost of inlined functions, which comes last, names the frame
      },
      ignored, &text);
  if (!text.function.empty()) return;
  backtrace_syminfo(
      state, address,
      [](void* data, uintptr_t, const char* symbol, uintptr_t, uintptr_t) {
        if (symbol != nullptr) static_cast<FrameText*>(data)->function = demangled(symbol);
      },
      ignored, &text);
}
#else
void look_up(uintptr_t, FrameText&) {}
#endif

std::string text_of_frame(void* frame) {
  // The address to which a call returns is after the call.
  const uintptr_t address = reinterpret_cast<uintptr_t>(frame) - 1;
  FrameText text;
  look_up(address, text);
  Dl_info module{};
  const bool known = dladdr(reinterpret_cast<void*>(address), &module) != 0;
  if (text.function.empty() && known && module.dli_sname != nullptr)
    text.function = demangled(module.dli_sname);
  if (text.function.empty()) text.function = fmt::format("{:#x}", address);
  if (!text.place.empty()) return text.function + " at " + text.place;
  if (!known || module.dli_fname == nullptr) return text.function;
  const std::string_view path(module.dli_fname);
  return fmt::format("{} in {}", text.function, path.substr(path.rfind('/') + 1));
}

}  // namespace

int64_t this_thread_id() { return static_cast<int64_t>(syscall(SYS_gettid)); }

std::vector<ThreadStack> thread_stacks(int64_t first, std::chrono::milliseconds patience) {
  static std::mutex one_at_a_time;
  const std::scoped_lock lock(one_at_a_time);
  std::vector<int64_t> threads = other_threads();
  std::ranges::sort(threads, {},
                    [&](int64_t thread) { return std::pair(thread != first, thread); });
  if (threads.size() > kThreads) threads.resize(kThreads);
  const int number = signal_for_stacks();
  const uint64_t turn = turn_now.load() + 2;
  std::vector<StackSlot*> asked(threads.size(), nullptr);
  if (number != 0) {
    for (size_t i = 0; i < threads.size(); ++i) {
      // A thread that writes late, of an earlier turn, keeps its slot.
      if (slots[i].writing) continue;
      slots[i].thread = threads[i];
      slots[i].turn = turn;
      asked[i] = &slots[i];
    }
    for (size_t i = threads.size(); i < kThreads; ++i) slots[i].thread = 0;
    turn_now = turn;
    for (size_t i = 0; i < threads.size(); ++i) {
      if (asked[i] != nullptr && syscall(SYS_tgkill, getpid(), threads[i], number) != 0)
        asked[i] = nullptr;  // it has ended
    }
  }
  const auto written = [&](const StackSlot* slot) {
    return slot == nullptr || slot->turn.load() == turn + 1;
  };
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!std::ranges::all_of(asked, written) && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  turn_now = turn + 2;  // who answers later writes nothing

  // Pools have many threads that wait in the same place.
  std::vector<ThreadStack> stacks;
  std::map<std::vector<void*>, size_t> known;
  for (size_t i = 0; i < threads.size(); ++i) {
    std::vector<void*> addresses;
    if (asked[i] != nullptr && written(asked[i])) {
      const auto& all = asked[i]->addresses;
      addresses.assign(all.begin() + std::min(kOwnFrames, asked[i]->count),
                       all.begin() + asked[i]->count);
    }
    const auto [found, is_new] = known.try_emplace(addresses, stacks.size());
    if (!is_new) {
      stacks[found->second].threads.push_back(threads[i]);
      continue;
    }
    ThreadStack stack{.threads = {threads[i]}, .name = name_of_thread(threads[i])};
    for (void* address : addresses) stack.frames.push_back(text_of_frame(address));
    stacks.push_back(std::move(stack));
  }
  return stacks;
}

}  // namespace muster::inline v0_1
