// repeat(): several passes over the input. Thread safety: as Stream.
#pragma once

#include "muster/data/internal/pass_numbers.h"
#include "muster/data/internal/transformation.h"

namespace muster::inline v0_1::data::internal {

template <typename T>
class RepeatStream final : public Transformation<T> {
 public:
  RepeatStream(std::unique_ptr<Stream<T>> input, int64_t count)
      : Transformation<T>(std::move(input)), count_(count) {}

  void start(int64_t run) override {
    // Passes are numbered so that no two of them share a number, also below another repeat. Without
    // a sign: the numbers of nested repeats without end wrap around.
    here_ = {.input_run = static_cast<int64_t>(static_cast<uint64_t>(run) *
                                               static_cast<uint64_t>(passes_of(count_)))};
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
  int64_t skip(int64_t count, std::exception_ptr* lost) override {
    int64_t got = 0;
    while (got < count && !over()) {
      const int64_t more = this->input().skip(count - got, lost);
      here_.emitted += more;
      got += more;
      if (got < count && !next_pass()) break;
    }
    return got;
  }
  void save(IteratorState& saved) const override {
    for (const int64_t number :
         {here_.pass, here_.input_run, here_.emitted, here_.epochs_before, here_.examples_before}) {
      saved.push_back(number);
    }
    this->input().save(saved);
  }
  Position position(IteratorStateReader& saved) const override {
    const Counts counts = read_counts(saved);
    Position position = this->input().position(saved);
    position.epoch += counts.epochs_before;
    position.elements_total += counts.examples_before;
    return position;
  }
  json own_identity() const override { return {{"kind", "repeat"}, {"version", 1}}; }
  void restore(IteratorStateReader& saved, int64_t) override {
    here_ = read_counts(saved);
    this->input().restore(saved, here_.input_run);
  }

 private:
  struct Counts {
    int64_t pass = 0;
    int64_t input_run = 0;
    int64_t emitted = 0;  // in this pass
    int64_t epochs_before = 0, examples_before = 0;
  };

  static Counts read_counts(IteratorStateReader& saved) {
    Counts counts;
    counts.pass = saved.count();
    counts.input_run = saved.count();
    counts.emitted = saved.count();
    counts.epochs_before = saved.count();
    counts.examples_before = saved.count();
    return counts;
  }
  bool over() const { return count_ >= 0 && here_.pass >= count_; }
  // False at the end of the last pass, and after a pass that gave nothing: so would all others.
  bool next_pass() {
    if (here_.emitted == 0 || (count_ >= 0 && here_.pass + 1 >= count_)) return false;
    IteratorState saved;
    this->input().save(saved);
    IteratorStateReader reader(saved);
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
