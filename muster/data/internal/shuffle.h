// shuffle(): elements drawn from a window. A saved position is counts alone: the window is made
// again by drawing the same slots on integers. Thread safety: as Stream.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <type_traits>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/random.h"
#include "muster/data/internal/held_memory.h"
#include "muster/data/internal/run.h"
#include "muster/data/internal/source_index.h"
#include "muster/data/internal/stream_element.h"
#include "muster/data/internal/transformation.h"

namespace muster::inline v0_1::data::internal {

template <typename T>
class ShuffleStream final : public Transformation<T> {
 public:
  struct Config {
    int64_t buffer{};
    std::optional<uint64_t> seed{};
    bool reshuffle{};
    int64_t
        ordinal{};  // the how-manieth shuffle of the pipeline, so that two of them draw differently
    int64_t cardinality{};  // of the input
  };
  ShuffleStream(std::unique_ptr<Stream<T>> input, const Config& config, const Run& run)
      : Transformation<T>(std::move(input)),
        config_(config),
        shared_(run),
        held_(fmt::format("shuffle({})", config.buffer),
              std::is_same_v<T, SourceIndex>
                  ? "take a smaller window"
                  : "take a smaller window, or shuffle in front of the stage that makes elements "
                    "large") {
    if (std::is_same_v<T, SourceIndex>) held_.check(effective_buffer(), sizeof(T));
  }

  void start(int64_t run) override {
    this->input().start(run);
    random_ = generator(run);
    buffer_.clear();
    held_.clear();
    ahead_ = ahead_end_ = 0;
    filled_ = input_ended_ = false;
    run_ = run;
    emitted_ = 0;
  }
  int64_t read(T* out, int64_t count) override {
    return pass(count, [&](int64_t i, T&& element) { out[i] = std::move(element); });
  }
  int64_t skip(int64_t count, std::exception_ptr* lost) override {
    return pass(count, [&](int64_t, T&& element) { note_lost(error_of(element), lost); });
  }
  void save(IteratorState& saved) const override {
    saved.push_back(emitted_);
    saved.push_back(run_);
  }
  Position position(IteratorStateReader& saved) const override {
    const int64_t examples = saved.next() * this->examples_per_element();
    saved.next();
    return {0, examples, examples};
  }
  json own_identity() const override {
    json state = {{"kind", "shuffle"},
                  {"version", 1},
                  {"buffer", effective_buffer()},
                  {"reshuffle", config_.reshuffle},
                  {"elements", config_.cardinality},
                  {"examples_per_element", this->examples_per_element()}};
    state["seed"] = config_.seed ? json(*config_.seed) : json();
    return state;
  }
  void restore(IteratorStateReader& saved, int64_t) override {
    const int64_t emitted = saved.count();
    start(saved.next());
    if (emitted > 0) rebuild(emitted);
  }

 private:
  // Integers are read ahead in blocks; values one by one, because they are large.
  static constexpr int64_t kBlock = std::is_same_v<T, SourceIndex> ? 256 : 1;

  Random generator(int64_t run) const {
    const uint64_t seed = config_.seed.value_or(shared_.seed());
    return Random(derive_key(seed, {id_of("data.shuffle"), static_cast<uint64_t>(config_.ordinal),
                                    static_cast<uint64_t>(config_.reshuffle ? run : 0)}));
  }
  int64_t effective_buffer() const {
    return config_.cardinality >= 0
               ? std::max<int64_t>(1, std::min(config_.buffer, config_.cardinality))
               : config_.buffer;
  }

  bool pull(T* out) {
    if (ahead_ == ahead_end_) {
      if (input_ended_) return false;
      ahead_ = 0;
      ahead_end_ = this->input().read(block_, kBlock);
      input_ended_ = ahead_end_ < kBlock;
      if (ahead_end_ == 0) return false;
    }
    *out = std::move(block_[ahead_++]);
    bytes_of_last_ = hold(*out);
    return true;
  }

  // The window does not fit into memory: one error is all that is left.
  void give_up() {
    buffer_.resize(1);
    buffer_.shrink_to_fit();
    become_error(buffer_.front(), held_.error());
    ahead_ = ahead_end_ = 0;
    input_ended_ = true;
  }

  template <typename Emit>
  int64_t pass(int64_t count, Emit emit) {
    if (!filled_ && count > 0) {
      filled_ = true;
      buffer_.reserve(static_cast<size_t>(std::min<int64_t>(effective_buffer(), 1 << 20)));
      T element;
      while (static_cast<int64_t>(buffer_.size()) < config_.buffer && !shared_.stopping() &&
             pull(&element)) {
        buffer_.push_back(std::move(element));
        if (!held_.add(bytes_of_last_)) give_up();
      }
    }
    int64_t got = 0;
    for (; got < count && !buffer_.empty(); ++got) {
      const size_t slot = random_.uniform_below(buffer_.size());
      emit(got, std::move(buffer_[slot]));
      if (!pull(&buffer_[slot])) {
        if (slot + 1 < buffer_.size()) buffer_[slot] = std::move(buffer_.back());
        buffer_.pop_back();
      }
    }
    emitted_ += got;
    return got;
  }

  // The buffer as it was after `emitted` outputs: the draws are replayed on input positions, then
  // only the elements still in the buffer are read.
  void rebuild(int64_t emitted) {
    Stream<T>& input = this->input();
    const int64_t most = std::numeric_limits<int64_t>::max() - emitted;
    const int64_t available = input.skip(std::min(config_.buffer, most) + emitted, nullptr);
    int64_t next = std::min(config_.buffer, available);
    std::vector<int64_t> slots(static_cast<size_t>(next));
    std::iota(slots.begin(), slots.end(), int64_t{0});
    for (int64_t i = 0; i < emitted; ++i) {
      if (slots.empty()) {
        throw invalid_argument("the saved position is element " + std::to_string(emitted) +
                               " of a shuffle, whose input has only " + std::to_string(i));
      }
      const size_t slot = random_.uniform_below(slots.size());
      if (next < available) {
        slots[slot] = next++;
      } else {
        slots[slot] = slots.back();
        slots.pop_back();
      }
    }
    std::vector<size_t> by_position(slots.size());
    std::iota(by_position.begin(), by_position.end(), size_t{0});
    std::sort(by_position.begin(), by_position.end(),
              [&](size_t a, size_t b) { return slots[a] < slots[b]; });
    input.start(run_);
    buffer_.resize(slots.size());
    int64_t at = 0;
    for (const size_t slot : by_position) {
      input.skip(slots[slot] - at, nullptr);
      input.read(&buffer_[slot], 1);
      if (!held_.add(hold(buffer_[slot]))) std::rethrow_exception(held_.error());
      at = slots[slot] + 1;
    }
    input.skip(next - at, nullptr);
    filled_ = true;
    emitted_ = emitted;
  }

  const Config config_;
  const Run& shared_;
  Random random_{RandomKey{}};
  std::vector<T> buffer_;
  HeldMemory held_;
  uint64_t bytes_of_last_ = 0;  // that pull() gave
  T block_[kBlock];
  int64_t ahead_ = 0, ahead_end_ = 0;
  bool filled_ = false, input_ended_ = false;
  int64_t run_ = 0, emitted_ = 0;
};

}  // namespace muster::inline v0_1::data::internal
