// Sums gradients over replicas while backward still runs.
// Thread safety: belongs to the training thread; backward runs on it.
//
// A gradient that was not written into the communicator's flat buffer is copied there as soon as
// autograd has it; a bucket leaves when its last gradient is in. Buckets leave in the order the
// chief observed in the first step, on every replica. In front of the gradients lies the head:
// numbers of the step that every replica must know (weight, loss, who has data, who wants to stop,
// which parameters were used). It is complete only after backward, so it travels in the last bucket
// and costs no message of its own.
//
// Parameters that no replica used do not travel: those of an optimizer that rests, of a network
// that waits for its turn. Which ones those are is known only when the head is. So each backward
// begins with a prediction that is the same everywhere (plan/used_buckets.h): what it expects
// leaves during backward, and what was used against it leaves after the head. A communicator whose
// sums depend on how buffers are cut always expects everything.
//
// Collectives of the function's own in the middle of backward (statistics over all replicas) must
// stand in the same place among the buckets everywhere, also where a replica has no gradient for a
// parameter and its bucket leaves later than the others'. So no bucket leaves before the last of
// them, of which there are as many as in the backwards so far.
//
// With a wire of 16 bits float32 gradients are rounded into a buffer of their own, which is reduced
// instead, and widened again; the head is not rounded, and then travels as a message of its own.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "muster/base/export.h"
#include "muster/collectives/communicator.h"
#include "muster/distribute/gradient_layout.h"
#include "muster/distribute/span_recorder.h"
#include "muster/plan/buckets.h"
#include "muster/plan/used_buckets.h"
#include "muster/tensor/gradient_destination.h"

namespace muster::inline v0_1::distribute {

// Throws InvalidArgument, naming the option, for a dtype gradients cannot travel in.
void check_wire_dtype(const std::string& option, DType dtype);

// Sums the gradients of all replicas while backward runs, bucket by bucket, and the numbers of the
// step with the last of them.
class MUSTER_PART_EXPORT Reducer final : public GradientDestinations {
 public:
  // `head`: how many numbers of the step travel along; `wire`: how float32 gradients do; `means`:
  // whether gradients become means in place of sums. The communicator must outlive the reducer; the
  // graph of a loss need not.
  Reducer(Communicator& communicator, GradientLayout layout, int head,
          const plan::BucketOptions& options, DType wire = kFloat32, bool means = false);
  ~Reducer() override;
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  // Call before each backward of an update. `first` and `last` tell whether it is the first or the
  // last backward whose gradients are added up; buckets leave only during the last.
  void begin(bool first = true, bool last = true);
  // Call before each collective that is not the reducer's.
  void other_collective();
  // Call after a backward of the step. A backward that runs after this does not belong to the step.
  void pause() { active_ = false; }
  // While the backward between begin() and pause() runs, on its thread: the parameter's place in
  // the flat buffer.
  Tensor take(const Tensor& parameter) override;
  // Call before finish() where weights keep their gradients from step to step: takes those of
  // backwards since the last finish() that the reducer was not told of. A parameter that this
  // replica did not use, and another did, then adds the gradient that it has.
  void take_earlier();
  // After the last one, or when no other will come: sends what has not left yet, with `head` in
  // front, and waits for the sums. Means are over `count` ranks: those that bring gradients; the
  // others bring none.
  void finish(const std::vector<double>& head, int count = 1);

  // Notes in `recorder`, which outlives its use, when each bucket was reduced: from when it left,
  // or from the end of the one before it, to its end. nullptr: nowhere, as from the start. Between
  // steps.
  void record_into(SpanRecorder* recorder) { recorder_ = recorder; }

  // After finish(): the summed head; the summed gradients, one tensor per buffer of the parameters;
  // and which parameters had a gradient on some replica. The others' gradients are 0; after
  // take_earlier() they are what they were.
  const std::vector<double>& head() const { return head_; }
  const std::vector<Tensor>& gradients() const { return gradients_; }
  // The same for one parameter of the layout, in its shape, and in its order in memory if it is
  // dense.
  const Tensor& gradient(size_t parameter) const { return views_[parameter]; }
  const std::vector<bool>& used() const { return used_; }
  // Of the buffers that it holds: gradients, the head, and what travels in 16 bits.
  int64_t bytes() const;

 private:
  struct Hook;
  struct Launched;
  // What leaves, and in which order, where these parameters are expected.
  struct Route {
    std::vector<plan::Bucket> buckets{};
    std::vector<bool> travels{};  // by number of the parameter; the head is the last one
    std::optional<plan::BucketProgress> progress{};
  };
  Route make_route(std::vector<bool> travels) const;
  void take_route();
  void on_gradient(size_t parameter);
  // Puts a gradient into its place in the buffer, and adds it to what is there.
  void put(size_t parameter, const Tensor& gradient);
  void add(size_t parameter, const Tensor& gradient);
  // Writes the gradients of a bucket that wait in waiting_ into the buffer, as one operation.
  void write_waiting(const plan::Bucket& cut);
  // Makes a sum the mean.
  void divide(const Tensor& gradients) const;
  // What a parameter adds that has no gradient of this step.
  void fill(size_t parameter);
  void launch_held();
  void launch(std::span<const int> buckets);
  void launch(const std::vector<plan::Bucket>& buckets, size_t bucket);
  void send(const Tensor& buffer, Launched launched);
  // Sends what was used and not expected.
  void send_late();
  // Throws what a reduction throws, and says which gradients it was about.
  void await_all();
  std::string describe(const Launched& launched) const;
  void adopt_observed_order();

  Communicator& communicator_;
  const GradientLayout layout_;
  int head_size_;
  std::vector<Tensor> memory_;     // per buffer, with the head in front of the first
  std::vector<Tensor> wire_;       // per buffer, of its layout; undefined where it travels itself
  int64_t front_ = 0;              // elements before the gradients of the first buffer
  std::vector<Tensor> gradients_;  // per buffer, without it
  std::vector<Tensor> views_;      // per parameter, in its shape
  std::vector<plan::FlatParameter> flat_;          // the parameters and the head
  std::vector<plan::Bucket> buckets_;              // of all of them
  std::optional<plan::UsePrediction> prediction_;  // nothing: everything travels always
  std::map<std::vector<bool>, Route> routes_;      // by what is expected
  Route* route_ = nullptr;                         // of this step
  bool order_is_shared_ = false;
  bool active_ = false;    // between begin() and pause() or finish()
  bool leaving_ = false;   // the buckets may leave
  int others_ = 0;         // collectives of the function's own in this backward
  int most_others_ = 0;    // and in any so far
  std::vector<int> held_;  // buckets that wait for the last of them
  // Parameters in the order their gradients came in the first step, on this replica; then on the
  // chief.
  std::vector<int64_t> observed_;
  // Per parameter, on a device of XLA: its gradient until its bucket leaves. Each write into a
  // buffer there computes the whole buffer anew.
  std::vector<Tensor> waiting_;
  std::vector<bool> ready_;   // has a gradient in this step, on this replica
  std::vector<bool> taken_;   // its place in the buffer was given away in this backward
  std::vector<bool> missed_;  // got a gradient since finish() while no step was under way
  bool keeps_ = false;        // take_earlier() was called in this step
  std::unordered_map<const void*, size_t> by_tensor_;  // which parameter a tensor is
  struct Launched {
    const std::vector<plan::Bucket>* buckets = nullptr;  // of the route, or late ones
    size_t bucket = 0;                                   // which of them
    Tensor gradients{};  // the part of the buffer that it brings; undefined for the head alone
    Tensor narrow{};     // where it travels in 16 bits
    Work work{};
    int64_t bytes = 0;
    TimePoint begun{}, sent{};  // while spans are recorded
  };
  void note_spans() const;
  std::vector<Launched> works_;
  const bool means_;
  int count_ = 1;  // of finish()
  // By buffer, a number: what gradients are multiplied by where they are put into it. Undefined: 1.
  std::vector<Tensor> scale_;
  SpanRecorder* recorder_ = nullptr;
  std::vector<double> head_;
  std::vector<bool> used_;
  // Kept: a hook lives as long as its accumulator.
  struct Accumulators;
  std::unique_ptr<Accumulators> accumulators_;
};

}  // namespace muster::inline v0_1::distribute
