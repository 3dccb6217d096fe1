// What a model function shows in TensorBoard, by name: scalars, histograms, images, sound, texts
// and tensors. Thread safety: belongs to one replica's thread.
//
// Calls cost next to nothing in steps that write no summaries, and so do functions that are given
// instead of tensors: they are not called then. Over replicas, and over the batches of an update or
// of an evaluation, scalars become their mean, weighted by rows, and histograms one histogram of
// all values; of a variable, of an image and of all other kinds the first replica's is taken, of
// the first batch that has rows. What is computed for a summary must not need the other replicas.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/export.h"
#include "muster/formats/custom_scalars.h"
#include "muster/formats/summary_value.h"
#include "muster/tensor/tensor.h"
#include "muster/tensor/variable.h"

namespace muster::inline v0_1 {

namespace internal {
class SummaryCalls;
}

// Options of Summaries::image().
struct ImageSummaryOptions {
  int64_t max_outputs = 3;  // so many of the batch; at least 1
};

// Options of Summaries::audio().
struct AudioSummaryOptions {
  int64_t sample_rate = 44100;  // Hz
  int64_t max_outputs = 3;      // so many of the batch; at least 1
};

class MUSTER_EXPORT Summaries {
 public:
  // Gives a tensor, and is called only in calls whose summaries are written.
  using TensorFn = std::function<Tensor()>;

  // `variables` outlives it.
  explicit Summaries(const VariableStore& variables) : variables_(variables) {}
  Summaries(const Summaries&) = delete;
  Summaries& operator=(const Summaries&) = delete;

  // Whether this call of the model function is one whose summaries are written.
  bool due() const { return call_.due; }

  // All of these throw InvalidArgument for an empty name, and for one that the same call has used
  // already. A name is the tag in TensorBoard, and its parts before '/' make groups.

  // A number; a tensor has one element.
  void scalar(const std::string& name, double value);
  void scalar(const std::string& name, const Tensor& value);
  void scalar(const std::string& name, const TensorFn& value);
  // How the elements of a tensor of any shape and number type are distributed. Throws NonFinite,
  // naming the tag, when one is NaN or infinite.
  void histogram(const std::string& name, const Tensor& values);
  void histogram(const std::string& name, const TensorFn& values);
  // Pictures [batch, height, width, channels] of 1 (grey), 2 (grey and alpha), 3 (RGB) or 4 (RGBA)
  // channels: uint8, or floating in [0, 1], where what is beyond is cut off and NaN is 0. Tags are
  // "<name>/image" where at most one is wanted, else "<name>/image/0" and so on, as in
  // tf.summary.image.
  void image(const std::string& name, const Tensor& images,
             const ImageSummaryOptions& options = {});
  // The same; the pictures are computed where they are wanted alone.
  void image(const std::string& name, const TensorFn& images,
             const ImageSummaryOptions& options = {});
  // Sound [batch, frames, channels] or [batch, frames], floating in [-1, 1], as WAV of 16 bits.
  // Tags are "<name>/audio" or "<name>/audio/0" and so on.
  void audio(const std::string& name, const Tensor& sounds,
             const AudioSummaryOptions& options = {});
  // The same; the sound is computed where it is wanted alone.
  void audio(const std::string& name, const TensorFn& sounds,
             const AudioSummaryOptions& options = {});
  // A text, which TensorBoard shows as Markdown.
  void text(const std::string& name, const std::string& text);
  // Texts as a table of rows, all of one length. Throws InvalidArgument where they are not.
  void text_table(const std::string& name, const std::vector<std::vector<std::string>>& table);
  // A tensor as it is, for programs that read event files. Throws InvalidArgument for dtypes that
  // TensorFlow does not have, quantized ones.
  void tensor(const std::string& name, const Tensor& value);
  void tensor(const std::string& name, const TensorFn& value);
  // The layout of the Custom Scalars page; the first one that is due is written, and no other.
  void custom_scalars(const std::vector<formats::CustomCategory>& categories);

  // While a Scope lives, names are put behind "<name>/"; scopes nest.
  class Scope {
   public:
    Scope(Summaries& summaries, const std::string& name);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Summaries& summaries_;
    const size_t outer_;
  };
  // Gives the scope that lives in a statement's variable: auto scope = summary().scope("encoder").
  [[nodiscard]] Scope scope(const std::string& name) { return Scope(*this, name); }

 private:
  friend class internal::SummaryCalls;

  // One call of the model function.
  struct Call {
    bool due = false;   // summaries are wanted
    bool first = true;  // it is on the first replica
    int64_t batch = 0;  // its place among all batches that are merged
    int64_t rows = 0;   // a batch without rows counts for nothing
  };
  struct Number {
    int64_t batch{};
    double value{};
    double weight{};
  };

  bool is_variable(const Tensor& tensor) const;
  // The tag; nothing (empty) where there is nothing to do. Notes that the call has used it.
  std::string tag_for(const std::string& name);
  // Whether the first replica's value is still to be taken.
  bool wants(const std::string& tag) const { return call_.first && !others_.contains(tag); }
  void add_images(const std::string& tag, const Tensor& images, const ImageSummaryOptions& options);
  void add_sounds(const std::string& tag, const Tensor& sounds, const AudioSummaryOptions& options);
  void put(const std::string& tag, formats::SummaryValue value);
  nlohmann::json mergeable() const;

  const VariableStore& variables_;
  Call call_;
  std::string prefix_;
  bool laid_out_ = false;
  std::set<std::string> used_;  // in this call
  std::map<std::string, std::vector<Number>> scalars_;
  std::map<std::string, formats::Histogram> histograms_;
  std::map<std::string, std::vector<formats::SummaryValue>> others_;
};

}  // namespace muster::inline v0_1
