// The streams that decide which elements come and in what order: source, take, skip, shard,
// shuffle, repeat. Their saved positions are counts alone: a shuffle's buffer is rebuilt by
// replaying its draws on integers.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <type_traits>

#include "muster/base/random.h"
#include "muster/data/internal/held_memory.h"
#include "muster/data/internal/pass_numbers.h"
#include "muster/data/internal/stream.h"

namespace muster::inline v0_1::data::internal {

class SourceStream final : public Stream<Ref> {
 public:
  // `names`: of the files it stands for; empty where it does not.
  SourceStream(std::string kind, int64_t size, std::string names = "")
      : kind_(std::move(kind)), size_(size), names_(std::move(names)) {}

  void start(int64_t run) override {
    run_ = run;
    next_ = 0;
  }
  int64_t read(Ref* out, int64_t count) override {
    const int64_t got = std::min(count, size_ - next_);
    for (int64_t i = 0; i < got; ++i) out[i] = {next_ + i, run_};
    next_ += got;
    return got;
  }
  int64_t skip(int64_t count) override {
    const int64_t got = std::min(count, size_ - next_);
    next_ += got;
    return got;
  }
  int64_t examples_per_element() const override { return 1; }
  void mark(Marks& marks) const override { marks.push_back(next_); }
  Position position(MarkReader& marks) const override {
    const int64_t next = marks.next();
    return {0, next, next};
  }
  json identity() const override {
    json state = {{"kind", kind_}, {"version", 1}, {"size", size_}};
    if (!names_.empty()) state[kFileNames] = names_;
    return state;
  }
  void restore(MarkReader& marks, int64_t run) override {
    run_ = run;
    next_ = std::min(marks.count(), size_);
  }

 private:
  const std::string kind_;
  const int64_t size_;
  const std::string names_;
  int64_t run_ = 0;
  int64_t next_ = 0;
};

// What the transformations have in common.
template <typename T>
class Transformation : public Stream<T> {
 public:
  explicit Transformation(std::unique_ptr<Stream<T>> input) : input_(std::move(input)) {}

  int64_t examples_per_element() const override { return input_->examples_per_element(); }
  Position position(MarkReader& marks) const override { return input_->position(marks); }
  json identity() const override {
    json state = own_identity();
    state["input"] = input_->identity();
    return state;
  }

 protected:
  virtual json own_identity() const = 0;
  Stream<T>& input() const { return *input_; }

 private:
  std::unique_ptr<Stream<T>> input_;
};

template <typename T>
class TakeStream final : public Transformation<T> {
 public:
  TakeStream(std::unique_ptr<Stream<T>> input, int64_t count)
      : Transformation<T>(std::move(input)),
        count_(count < 0 ? std::numeric_limits<int64_t>::max() : count) {}

  void start(int64_t run) override {
    taken_ = 0;
    this->input().start(run);
  }
  int64_t read(T* out, int64_t count) override {
    const int64_t wanted = std::max<int64_t>(0, std::min(count, count_ - taken_));
    const int64_t got = wanted == 0 ? 0 : this->input().read(out, wanted);
    taken_ += got;
    return got;
  }
  int64_t skip(int64_t count) override {
    const int64_t wanted = std::max<int64_t>(0, std::min(count, count_ - taken_));
    const int64_t got = wanted == 0 ? 0 : this->input().skip(wanted);
    taken_ += got;
    return got;
  }
  void mark(Marks& marks) const override {
    marks.push_back(taken_);
    this->input().mark(marks);
  }
  Position position(MarkReader& marks) const override {
    marks.next();
    return this->input().position(marks);
  }
  json own_identity() const override { return {{"kind", "take"}, {"version", 1}}; }
  void restore(MarkReader& marks, int64_t run) override {
    taken_ = marks.count();
    this->input().restore(marks, run);
  }

 private:
  const int64_t count_;
  int64_t taken_ = 0;
};

template <typename T>
class SkipStream final : public Transformation<T> {
 public:
  SkipStream(std::unique_ptr<Stream<T>> input, int64_t count)
      : Transformation<T>(std::move(input)), count_(count) {}

  void start(int64_t run) override {
    skipped_ = false;
    this->input().start(run);
  }
  int64_t read(T* out, int64_t count) override {
    return begin() ? this->input().read(out, count) : 0;
  }
  int64_t skip(int64_t count) override { return begin() ? this->input().skip(count) : 0; }
  void mark(Marks& marks) const override {
    marks.push_back(skipped_);
    this->input().mark(marks);
  }
  Position position(MarkReader& marks) const override {
    marks.next();
    return this->input().position(marks);
  }
  json own_identity() const override {
    return {{"kind", "skip"}, {"version", 1}, {"count", count_}};
  }
  void restore(MarkReader& marks, int64_t run) override {
    skipped_ = marks.count() != 0;
    this->input().restore(marks, run);
  }

 private:
  // False when nothing is left: -1 skips all.
  bool begin() {
    if (count_ < 0) return false;
    if (!skipped_) this->input().skip(count_);
    skipped_ = true;
    return true;
  }

  const int64_t count_;
  bool skipped_ = false;
};

template <typename T>
class ShardStream final : public Transformation<T> {
 public:
  ShardStream(std::unique_ptr<Stream<T>> input, int64_t num_shards, int64_t index)
      : Transformation<T>(std::move(input)), num_shards_(num_shards), index_(index) {}

  void start(int64_t run) override { this->input().start(run); }
  int64_t read(T* out, int64_t count) override {
    int64_t got = 0;
    for (; got < count; ++got) {
      if (this->input().skip(index_) < index_ || this->input().read(out + got, 1) == 0) break;
      this->input().skip(num_shards_ - 1 - index_);
    }
    return got;
  }
  int64_t skip(int64_t count) override {
    int64_t got = 0;
    for (; got < count; ++got) {
      const int64_t passed = this->input().skip(num_shards_);
      if (passed <= index_) break;
    }
    return got;
  }
  void mark(Marks& marks) const override { this->input().mark(marks); }
  json own_identity() const override {
    return {{"kind", "shard"}, {"version", 1}, {"num_shards", num_shards_}, {"index", index_}};
  }
  void restore(MarkReader& marks, int64_t run) override { this->input().restore(marks, run); }

 private:
  const int64_t num_shards_, index_;
};

template <typename T>
class ShuffleStream final : public Transformation<T> {
 public:
  struct Config {
    int64_t buffer;
    std::optional<uint64_t> seed;
    bool reshuffle;
    int64_t
        ordinal;  // the how-manieth shuffle of the pipeline, so that two of them draw differently
    int64_t cardinality;  // of the input
  };
  ShuffleStream(std::unique_ptr<Stream<T>> input, const Config& config, const Run& run)
      : Transformation<T>(std::move(input)),
        config_(config),
        shared_(run),
        held_(fmt::format("shuffle({})", config.buffer),
              std::is_same_v<T, Ref>
                  ? "take a smaller window"
                  : "take a smaller window, or shuffle in front of the stage that makes elements "
                    "large") {
    if (std::is_same_v<T, Ref>) held_.check(effective_buffer(), sizeof(T));
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
  int64_t skip(int64_t count) override {
    return pass(count, [](int64_t, T&&) {});
  }
  void mark(Marks& marks) const override {
    marks.push_back(emitted_);
    marks.push_back(run_);
  }
  Position position(MarkReader& marks) const override {
    const int64_t examples = marks.next() * this->examples_per_element();
    marks.next();
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
  void restore(MarkReader& marks, int64_t) override {
    const int64_t emitted = marks.count();
    start(marks.next());
    if (emitted > 0) rebuild(emitted);
  }

 private:
  // Integers are read ahead in blocks; values one by one, because they are large.
  static constexpr int64_t kBlock = std::is_same_v<T, Ref> ? 256 : 1;

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
    const int64_t available = input.skip(std::min(config_.buffer, most) + emitted);
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
      input.skip(slots[slot] - at);
      input.read(&buffer_[slot], 1);
      if (!held_.add(hold(buffer_[slot]))) std::rethrow_exception(held_.error());
      at = slots[slot] + 1;
    }
    input.skip(next - at);
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

template <typename T>
class RepeatStream final : public Transformation<T> {
 public:
  RepeatStream(std::unique_ptr<Stream<T>> input, int64_t count)
      : Transformation<T>(std::move(input)), count_(count) {}

  void start(int64_t run) override {
    // Passes are numbered so that no two of them share a number, also below another repeat.
    here_ = {.input_run = run * passes_of(count_)};
    this->input().start(here_.input_run);
  }
  int64_t read(T* out, int64_t count) override {
    int64_t got = 0;
    while (got < count && !over()) {
      const int64_t more = this->input().read(out + got, count - got);
      here_.emitted += more;
      got += more;
      if (got < count && !next_pass()) break;
    }
    return got;
  }
  int64_t skip(int64_t count) override {
    int64_t got = 0;
    while (got < count && !over()) {
      const int64_t more = this->input().skip(count - got);
      here_.emitted += more;
      got += more;
      if (got < count && !next_pass()) break;
    }
    return got;
  }
  void mark(Marks& marks) const override {
    for (const int64_t number :
         {here_.pass, here_.input_run, here_.emitted, here_.epochs_before, here_.examples_before}) {
      marks.push_back(number);
    }
    this->input().mark(marks);
  }
  Position position(MarkReader& marks) const override {
    const Counts saved = read_counts(marks);
    Position position = this->input().position(marks);
    position.epoch += saved.epochs_before;
    position.elements_total += saved.examples_before;
    return position;
  }
  json own_identity() const override { return {{"kind", "repeat"}, {"version", 1}}; }
  void restore(MarkReader& marks, int64_t) override {
    here_ = read_counts(marks);
    this->input().restore(marks, here_.input_run);
  }

 private:
  struct Counts {
    int64_t pass = 0;
    int64_t input_run = 0;
    int64_t emitted = 0;  // in this pass
    int64_t epochs_before = 0, examples_before = 0;
  };

  static Counts read_counts(MarkReader& marks) {
    Counts counts;
    counts.pass = marks.count();
    counts.input_run = marks.count();
    counts.emitted = marks.count();
    counts.epochs_before = marks.count();
    counts.examples_before = marks.count();
    return counts;
  }
  bool over() const { return count_ >= 0 && here_.pass >= count_; }
  // False at the end of the last pass, and after a pass that gave nothing: so would all others.
  bool next_pass() {
    if (here_.emitted == 0 || (count_ >= 0 && here_.pass + 1 >= count_)) return false;
    Marks marks;
    this->input().mark(marks);
    MarkReader reader(marks);
    const Position done = this->input().position(reader);
    here_ = {.pass = here_.pass + 1,
             .input_run = here_.input_run + 1,
             .epochs_before = here_.epochs_before + done.epoch + 1,
             .examples_before = here_.examples_before + done.elements_total};
    this->input().start(here_.input_run);
    return true;
  }

  const int64_t count_;
  Counts here_;
};

}  // namespace muster::inline v0_1::data::internal
