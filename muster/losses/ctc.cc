#include "muster/losses/ctc.h"

#include <fmt/format.h>

#include "muster/losses/internal/inputs.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::losses {
namespace {

constexpr const char* kCtc = "ctc_loss";

void check_integers(const char* what, const Tensor& tensor) {
  if (tensor.defined() && at::isIntegralType(tensor.scalar_type(), /*includeBool=*/false)) return;
  throw invalid_argument(
      fmt::format("{}: {} {}", kCtc, what,
                  tensor.defined() ? "are " + describe(tensor) : "are undefined"),
      "ctc_loss(labels, predictions, label_length, logit_length); all but the predictions are "
      "of an integer dtype");
}

void check_shapes(const Tensor& labels, const Tensor& predictions) {
  check_integers("labels", labels);
  internal::check_defined(kCtc, labels, predictions);
  if (!predictions.is_floating_point() || predictions.dim() != 3) {
    throw invalid_argument(fmt::format("{}: predictions are {}", kCtc, describe(predictions)),
                           "predictions are floating point, [batch, time, classes]");
  }
  if (labels.dim() == 2 && labels.size(0) == predictions.size(0)) return;
  throw internal::shape_mismatch(
      kCtc, labels, predictions,
      "labels are [batch, labels] for predictions [batch, time, classes]");
}

// Returns the lengths of the rows on the CPU, int64[batch], each in [least, most].
Tensor lengths_of(const char* what, const Tensor& lengths, int64_t batch, int64_t least,
                  int64_t most) {
  check_integers(what, lengths);
  const bool column = lengths.dim() == 2 && lengths.size(1) == 1;
  if (!(lengths.dim() == 1 || column) || lengths.size(0) != batch) {
    throw invalid_argument(
        fmt::format("{}: {} {} does not fit a batch of {}", kCtc, what, describe(lengths), batch),
        "lengths are [batch] or [batch, 1]");
  }
  const Tensor local = lengths.reshape({-1}).to(at::kCPU, at::kLong).contiguous();
  for (int64_t row = 0; row < batch; ++row) {
    const int64_t length = local.data_ptr<int64_t>()[row];
    if (length >= least && length <= most) continue;
    throw invalid_argument(fmt::format("{}: {} of row {} is {}, outside [{}, {}]", kCtc, what, row,
                                       length, least, most));
  }
  return local;
}

int64_t blank_of(int64_t blank_index, int64_t classes) {
  const int64_t blank = blank_index < 0 ? blank_index + classes : blank_index;
  if (blank >= 0 && blank < classes) return blank;
  throw invalid_argument(fmt::format("{}: blank_index is {}; it must be in [{}, {})", kCtc,
                                     blank_index, -classes, classes));
}

// The labels of one row, of which the first `count` are read.
void check_row(const int64_t* labels, int64_t count, int64_t row, int64_t times, int64_t classes,
               int64_t blank) {
  int64_t needed = count;
  for (int64_t i = 0; i < count; ++i) {
    if (labels[i] < 0 || labels[i] >= classes || labels[i] == blank) {
      throw invalid_argument(
          fmt::format("{}: the label of row {}, position {}, is {}, {}", kCtc, row, i, labels[i],
                      labels[i] == blank ? "the blank" : fmt::format("outside [0, {})", classes)),
          fmt::format("the predictions have {} classes, of which {} is the blank", classes, blank));
    }
    if (i > 0 && labels[i] == labels[i - 1]) ++needed;
  }
  if (needed <= times) return;
  throw invalid_argument(
      fmt::format("{}: the labels of row {} need {} times, its logit_length is {}", kCtc, row,
                  needed, times),
      "each label takes one, and there is a blank between two equal ones");
}

// Returns the labels on the CPU, int64[batch, at least 1].
Tensor checked_labels(const Tensor& labels, const Tensor& label_length, const Tensor& logit_length,
                      int64_t classes, int64_t blank) {
  const Tensor local = labels.to(at::kCPU, at::kLong).contiguous();
  for (int64_t row = 0; row < local.size(0); ++row) {
    check_row(local.data_ptr<int64_t>() + row * local.size(1),
              label_length.data_ptr<int64_t>()[row], row, logit_length.data_ptr<int64_t>()[row],
              classes, blank);
  }
  return local.size(1) > 0 ? local : at::zeros({local.size(0), 1}, at::kLong);
}

}  // namespace

Tensor ctc_loss(const Tensor& labels, const Tensor& predictions, const Tensor& label_length,
                const Tensor& logit_length, const CtcLossOptions& options) {
  check_shapes(labels, predictions);
  const int64_t batch = predictions.size(0);
  const int64_t classes = predictions.size(2);
  const int64_t blank = blank_of(options.blank_index, classes);
  const Tensor label_lengths = lengths_of("label_length", label_length, batch, 0, labels.size(1));
  const Tensor logit_lengths =
      lengths_of("logit_length", logit_length, batch, 1, predictions.size(1));
  const Tensor targets = checked_labels(labels, label_lengths, logit_lengths, classes, blank);

  Tensor scores = internal::wide(predictions);
  if (!options.from_logits) scores = (scores + internal::kEpsilon).log();
  // LibTorch's operation takes no batch without rows; this is [0], with gradients of 0.
  const Tensor losses = batch == 0 ? scores.sum({1, 2})
                                   : at::ctc_loss(at::log_softmax(scores, -1).transpose(0, 1),
                                                  targets.to(scores.device()), logit_lengths,
                                                  label_lengths, blank, at::Reduction::None);
  return internal::weighted("ctc_loss", losses, options.sample_weight, options.reduction);
}

}  // namespace muster::inline v0_1::losses
