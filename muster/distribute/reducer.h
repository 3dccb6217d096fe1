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
// Collectives of the function's own in the middle of backward (statistics over all replicas) must
// stand in the same place among the buckets everywhere, also where a replica has no gradient for a
// parameter and its bucket leaves later than the others'. So no bucket leaves before the last of
// them, of which there are as many as in the backwards so far.
//
// With a wire of 16 bits float32 gradients are rounded into a buffer of their own, which is reduced
// instead, and widened again; the head is not rounded, and then travels as a message of its own.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "muster/base/export.h"
#include "muster/collectives/communicator.h"
#include "muster/distribute/gradient_layout.h"
#include "muster/distribute/span_recorder.h"
#include "muster/plan/buckets.h"
#include "muster/tensor/gradient_destination.h"

namespace muster::inline v0_1::distribute {

// Throws InvalidArgument, naming the option, for a dtype gradients cannot travel in.
void check_wire_dtype(const std::string& option, DType dtype);

// Sums the gradients of all replicas while backward runs, bucket by bucket, and the numbers of the
// step with the last of them.
class MUSTER_PART_EXPORT Reducer final : public GradientDestinations {
 public:
  // `head`: how many numbers of the step travel along; `wire`: how float32 gradients do. The
  // communicator must outlive the reducer; the graph of a loss need not.
  Reducer(Communicator& communicator, GradientLayout layout, int head,
          const plan::BucketOptions& options, DType wire = kFloat32);
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
  // Takes the gradients that weights have from before begin(), and that no backward since has
  // added to: those of backwards that the reducer was not told of.
  void take_earlier();
  // After the last one, or when no other will come: sends what has not left yet, with `head` in
  // front, and waits for the sums.
  void finish(const std::vector<double>& head);

  // Notes in `recorder`, which outlives its use, when each bucket was reduced: from when it left,
  // or from the end of the one before it, to its end. nullptr: nowhere, as from the start. Between
  // steps.
  void record_into(SpanRecorder* recorder) { recorder_ = recorder; }

  // After finish(): the summed head; the summed gradients, one tensor per buffer of the parameters;
  // and which parameters had a gradient on some replica.
  const std::vector<double>& head() const { return head_; }
  const std::vector<Tensor>& gradients() const { return gradients_; }
  // The same for one parameter of the layout, in its shape.
  const Tensor& gradient(size_t parameter) const { return views_[parameter]; }
  const std::vector<bool>& used() const { return used_; }

 private:
  struct Hook;
  void on_gradient(size_t parameter);
  void launch_held();
  void launch(std::span<const int> buckets);
  // Throws what a reduction throws, and says which gradients it was about.
  void await_all();
  std::string describe_bucket(int bucket) const;
  void adopt_observed_order();

  Communicator& communicator_;
  const GradientLayout layout_;
  int head_size_;
  std::vector<Tensor> memory_;     // per buffer, with the head in front of the first
  std::vector<Tensor> wire_;       // per buffer, of its layout; undefined where it travels itself
  int64_t front_ = 0;              // elements before the gradients of the first buffer
  std::vector<Tensor> gradients_;  // per buffer, without it
  std::vector<Tensor> views_;      // per parameter, in its shape
  std::vector<plan::Bucket> buckets_;
  std::unique_ptr<plan::BucketProgress> progress_;
  bool order_is_shared_ = false;
  bool active_ = false;    // between begin() and pause() or finish()
  bool leaving_ = false;   // the buckets may leave
  int others_ = 0;         // collectives of the function's own in this backward
  int most_others_ = 0;    // and in any so far
  std::vector<int> held_;  // buckets that wait for the last of them
  std::vector<int64_t>
      observed_;             // parameters in the order their gradients came, in the first step
  std::vector<bool> ready_;  // has a gradient in this step, on this replica
  std::vector<bool> taken_;  // its place in the buffer was given away in this backward
  std::unordered_map<const void*, size_t> by_tensor_;  // which parameter a tensor is
  struct Launched {
    Work work{};
    int bucket{};
    int64_t bytes{};
    TimePoint begun{}, sent{};  // while spans are recorded
  };
  void send(const Tensor& buffer, int bucket);
  void note_spans() const;
  std::vector<Launched> works_;
  SpanRecorder* recorder_ = nullptr;
  std::vector<double> head_;
  std::vector<bool> used_;
  // Kept: a hook lives as long as its accumulator.
  struct Accumulators;
  std::unique_ptr<Accumulators> accumulators_;
};

}  // namespace muster::inline v0_1::distribute
