// Summaries of a model function for TensorBoard, by name: scalars, histograms, images, sound, texts
// and tensors. Thread safety: belongs to one replica's thread.
//
// In steps without summaries, calls cost almost nothing, and functions passed instead of tensors
// are not called. Over replicas, and over the batches of an update or of an evaluation, scalars
// become their mean, weighted by rows, and histograms become one histogram of all values. For a
// variable, an image and all other kinds the value of the first replica is used, from the first
// batch that has rows. The computation of a summary must not need the other replicas.
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
  int64_t max_outputs = 3;  // images taken of the batch; at least 1
};

// Options of Summaries::audio().
struct AudioSummaryOptions {
  int64_t sample_rate = 44100;  // Hz
  int64_t max_outputs = 3;      // sounds taken of the batch; at least 1
};

class MUSTER_EXPORT Summaries {
 public:
  // Returns a tensor; called only if summaries of this call are written.
  using TensorFn = std::function<Tensor()>;

  // `variables` must outlive it.
  explicit Summaries(const VariableStore& variables) : variables_(variables) {}
  Summaries(const Summaries&) = delete;
  Summaries& operator=(const Summaries&) = delete;

  // Whether summaries of this call of the model function are written.
  bool due() const { return call_.due; }

  // All of these throw InvalidArgument for an empty name, and for a name used before in the same
  // call. A name is the tag in TensorBoard; its parts before '/' make groups.

  // Writes a number; a tensor must have one element.
  void scalar(const std::string& name, double value);
  void scalar(const std::string& name, const Tensor& value);
  void scalar(const std::string& name, const TensorFn& value);
  // Writes the distribution of the elements of a tensor of any shape and number type. Throws
  // NonFinite with the tag when one is NaN or infinite.
  void histogram(const std::string& name, const Tensor& values);
  void histogram(const std::string& name, const TensorFn& values);
  // Writes images [batch, height, width, channels] of 1 (grey), 2 (grey and alpha), 3 (RGB) or 4
  // (RGBA) channels: uint8, or floating point in [0, 1]; values outside are clipped, and NaN
  // becomes 0. Tags are "<name>/image" if max_outputs is 1, else "<name>/image/0" and so on, as in
  // tf.summary.image.
  void image(const std::string& name, const Tensor& images,
             const ImageSummaryOptions& options = {});
  // The same; the images are computed only if they are written.
  void image(const std::string& name, const TensorFn& images,
             const ImageSummaryOptions& options = {});
  // Writes sound [batch, frames, channels] or [batch, frames], floating point in [-1, 1], as 16-bit
  // WAV. Tags are "<name>/audio" or "<name>/audio/0" and so on.
  void audio(const std::string& name, const Tensor& sounds,
             const AudioSummaryOptions& options = {});
  // The same; the sound is computed only if it is written.
  void audio(const std::string& name, const TensorFn& sounds,
             const AudioSummaryOptions& options = {});
  // Writes a text, which TensorBoard shows as Markdown.
  void text(const std::string& name, const std::string& text);
  // Writes texts as a table of rows. Throws InvalidArgument if the rows differ in length.
  void text_table(const std::string& name, const std::vector<std::vector<std::string>>& table);
  // Writes a tensor unchanged, for programs that read event files. Throws InvalidArgument for
  // dtypes that TensorFlow does not have, and for quantized ones.
  void tensor(const std::string& name, const Tensor& value);
  void tensor(const std::string& name, const TensorFn& value);
  // Writes the layout of the Custom Scalars page; only the first one is written.
  void custom_scalars(const std::vector<formats::CustomCategory>& categories);

  // While a Scope exists, names get the prefix "<name>/"; scopes nest.
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
  // Returns the scope, to keep in a variable: auto scope = summary().scope("encoder").
  [[nodiscard]] Scope scope(const std::string& name) { return Scope(*this, name); }

 private:
  friend class internal::SummaryCalls;

  // One call of the model function.
  struct Call {
    bool due = false;   // summaries are written
    bool first = true;  // on the first replica
    int64_t batch = 0;  // its number among all batches that are merged
    int64_t rows = 0;   // a batch without rows is not counted
  };
  struct Number {
    int64_t batch{};
    double value{};
    double weight{};
  };

  bool is_variable(const Tensor& tensor) const;
  // Returns the tag, or "" if there is nothing to write. Records that the call has used it.
  std::string tag_for(const std::string& name);
  // Whether the first replica's value is still missing.
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
