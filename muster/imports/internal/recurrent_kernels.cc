// LSTM, GRU and RNN. What LibTorch's own layers compute goes to them; the rest step by step.
#include <algorithm>

#include "muster/base/strings.h"
#include "muster/imports/internal/kernels.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::onnx::internal {
namespace {

using Results = std::vector<Tensor>;

// A recurrent layer: [steps, batch, ...], gates in ONNX's order.
struct RecurrentForm {
  Tensor x, kernel, recurrent, bias, lengths, peepholes;
  std::vector<Tensor> state;  // [directions, batch, units]
  std::string kind, direction;
  std::vector<std::string> activations;  // in small letters, for each direction
  std::vector<double> alphas, betas;
  double clip = 0;
  int64_t units = 0, gates = 1, directions = 1;
  bool batch_first = false, reset_after = false, couples = false;

  explicit RecurrentForm(NodeRun& call) : kind(call.node().operation) {
    batch_first = call.integer_attribute("layout", 0) != 0;
    x = batch_first ? call.in(0).transpose(0, 1) : call.in(0);
    kernel = call.in(1);
    recurrent = call.in(2);
    bias = call.in_or(3, Tensor());
    lengths = call.in_or(4, Tensor());
    units = call.integer_attribute("hidden_size", recurrent.size(-1));
    gates = kind == "LSTM" ? 4 : kind == "GRU" ? 3 : 1;
    direction = call.text_attribute("direction", "forward");
    directions = direction == "bidirectional" ? 2 : 1;
    call.require(x.dim() == 3 && kernel.dim() == 3 && recurrent.dim() == 3 &&
                     kernel.size(0) == directions && recurrent.size(0) == directions &&
                     kernel.size(1) == gates * units && recurrent.size(1) == gates * units &&
                     recurrent.size(2) == units,
                 "the shapes of its weights do not fit");
    for (size_t i = 0; i < (kind == "LSTM" ? 2U : 1U); ++i) {
      Tensor first = call.in_or(5 + i, Tensor());
      if (first.defined() && batch_first) first = first.transpose(0, 1);
      state.push_back(first.defined() ? first
                                      : at::zeros({directions, x.size(1), units}, x.options()));
    }
    peepholes = kind == "LSTM" ? call.in_or(7, Tensor()) : Tensor();
    clip = call.number_attribute("clip", 0);
    reset_after = call.integer_attribute("linear_before_reset", 0) != 0;
    couples = call.integer_attribute("input_forget", 0) != 0;
    const std::vector<std::string> usual =
        kind == "LSTM"  ? std::vector<std::string>{"sigmoid", "tanh", "tanh"}
        : kind == "GRU" ? std::vector<std::string>{"sigmoid", "tanh"}
                        : std::vector<std::string>{"tanh"};
    if (call.has_attribute("activations")) {
      for (const std::string& name : call.attribute("activations").texts)
        activations.push_back(to_lower(name));
    }
    for (int64_t i = 0; i < directions && !call.has_attribute("activations"); ++i)
      activations.insert(activations.end(), usual.begin(), usual.end());
    call.require(activations.size() == usual.size() * static_cast<size_t>(directions),
                 "it has an activation too many or too few");
    if (call.has_attribute("activation_alpha")) alphas = call.attribute("activation_alpha").numbers;
    if (call.has_attribute("activation_beta")) betas = call.attribute("activation_beta").numbers;
  }

  // Whether LibTorch's layer computes the same.
  bool is_plain() const {
    for (size_t i = 0; i < activations.size(); ++i) {
      const std::string& name = activations[i];
      const bool gate = kind != "RNN" && i % (kind == "LSTM" ? 3 : 2) == 0;
      if (name != (gate ? "sigmoid" : "tanh")) return false;
    }
    return !lengths.defined() && !peepholes.defined() && clip == 0 && !couples &&
           (kind != "GRU" || reset_after) && x.size(0) > 0;
  }
};

// Gates in the order of LibTorch: of "iofc" [i, f, c, o], of "zrh" [r, z, h].
Tensor reordered(const RecurrentForm& form, const Tensor& weight) {
  if (form.kind == "RNN") return weight;
  const auto parts = weight.chunk(form.gates, 0);
  if (form.kind == "GRU") return at::cat({parts[1], parts[0], parts[2]});
  return at::cat({parts[0], parts[2], parts[3], parts[1]});
}

Results run_plain(const RecurrentForm& form) {
  std::vector<Tensor> weights;
  for (int64_t d = 0; d < form.directions; ++d) {
    weights.push_back(reordered(form, form.kernel[d]));
    weights.push_back(reordered(form, form.recurrent[d]));
    if (!form.bias.defined()) continue;
    const auto halves = form.bias[d].chunk(2, 0);
    weights.push_back(reordered(form, halves[0]));
    weights.push_back(reordered(form, halves[1]));
  }
  const bool back = form.direction == "reverse", has_bias = form.bias.defined(),
             both = form.directions == 2;
  const Tensor x = back ? form.x.flip({0}) : form.x;
  Tensor outputs, last, cell;
  if (form.kind == "LSTM") {
    std::tie(outputs, last, cell) =
        at::lstm(x, form.state, weights, has_bias, 1, 0.0, false, both, /*batch_first=*/false);
  } else if (form.kind == "GRU") {
    std::tie(outputs, last) =
        at::gru(x, form.state[0], weights, has_bias, 1, 0.0, false, both, false);
  } else {
    std::tie(outputs, last) =
        at::rnn_tanh(x, form.state[0], weights, has_bias, 1, 0.0, false, both, false);
  }
  if (back) outputs = outputs.flip({0});
  // [steps, batch, directions x units] -> [steps, directions, batch, units]
  outputs = outputs.reshape({outputs.size(0), outputs.size(1), form.directions, form.units})
                .transpose(1, 2);
  return {outputs, last, cell};
}

class StepwiseRun {
 public:
  StepwiseRun(NodeRun& call, const RecurrentForm& form) : call_(call), form_(form) {}

  Results run() {
    std::vector<Tensor> outputs, last, cells;
    for (int64_t d = 0; d < form_.directions; ++d) {
      direction_ = d;
      const bool back = form_.direction == "reverse" || d == 1;
      std::vector<Tensor> steps(static_cast<size_t>(form_.x.size(0)));
      Tensor h = form_.state[0][d], c = form_.kind == "LSTM" ? form_.state[1][d] : Tensor();
      for (int64_t i = 0; i < form_.x.size(0); ++i) {
        const int64_t t = back ? form_.x.size(0) - 1 - i : i;
        Tensor next = h, next_cell = c;
        step(form_.x[t], next, next_cell);
        Tensor given = next;
        if (form_.lengths.defined()) {
          const Tensor counts = form_.lengths.gt(t).unsqueeze(1);
          given = at::where(counts, next, at::zeros_like(next));
          next = at::where(counts, next, h);
          if (c.defined()) next_cell = at::where(counts, next_cell, c);
        }
        h = next;
        c = next_cell;
        steps[static_cast<size_t>(t)] = given;
      }
      call_.require(!steps.empty(), "it has no steps");
      outputs.push_back(at::stack(steps));
      last.push_back(h);
      cells.push_back(c);
    }
    return {at::stack(outputs, 1), at::stack(last),
            form_.kind == "LSTM" ? at::stack(cells) : Tensor()};
  }

 private:
  Tensor activate(size_t which, Tensor x) const {
    const size_t each = form_.activations.size() / static_cast<size_t>(form_.directions);
    const size_t place = static_cast<size_t>(direction_) * each + which;
    const std::string& name = form_.activations[place];
    const auto given = [&](const std::vector<double>& all, double otherwise) {
      return place < all.size() ? all[place] : otherwise;
    };
    if (form_.clip > 0) x = at::clamp(x, -form_.clip, form_.clip);
    if (name == "sigmoid") return at::sigmoid(x);
    if (name == "tanh") return at::tanh(x);
    if (name == "relu") return at::relu(x);
    if (name == "softsign") return x.div(x.abs().add(1));
    if (name == "softplus") return at::softplus(x);
    if (name == "elu") return at::elu(x, given(form_.alphas, 1));
    if (name == "leakyrelu") return at::leaky_relu(x, given(form_.alphas, 0.01));
    if (name == "affine") return x.mul(given(form_.alphas, 1)).add(given(form_.betas, 0));
    if (name == "hardsigmoid")
      return at::clamp(x.mul(given(form_.alphas, 0.2)).add(given(form_.betas, 0.5)), 0, 1);
    if (name == "thresholdedrelu") return at::threshold(x, given(form_.alphas, 1), 0);
    if (name == "scaledtanh")
      return at::tanh(x.mul(given(form_.betas, 1))).mul(given(form_.alphas, 1));
    call_.refuse("has the activation " + name);
  }

  // Replaces the state by that after one step.
  void step(const Tensor& x, Tensor& h, Tensor& c) const {
    const Tensor kernel = form_.kernel[direction_], recurrent = form_.recurrent[direction_];
    const Tensor bias = form_.bias.defined() ? form_.bias[direction_]
                                             : at::zeros({2 * kernel.size(0)}, kernel.options());
    const auto biases = bias.chunk(2, 0);
    const Tensor of_x = at::addmm(biases[0], x, kernel.t());
    if (form_.kind == "GRU") return step_gru(of_x, recurrent, biases[1], h);
    const Tensor sums = of_x.add(at::addmm(biases[1], h, recurrent.t()));
    if (form_.kind == "RNN") {
      h = activate(0, sums);
      return;
    }
    const auto parts = sums.chunk(4, 1);  // i, o, f, c
    std::vector<Tensor> p(3);
    if (form_.peepholes.defined()) {
      const auto three = form_.peepholes[direction_].chunk(3, 0);
      p.assign(three.begin(), three.end());
    }
    const auto peep = [](const Tensor& sum, const Tensor& weight, const Tensor& cell) {
      return weight.defined() ? sum.add(weight.mul(cell)) : sum;
    };
    const Tensor in = activate(0, peep(parts[0], p[0], c));
    const Tensor forget = form_.couples ? at::rsub(in, 1) : activate(0, peep(parts[2], p[2], c));
    c = forget.mul(c).add(in.mul(activate(1, parts[3])));
    h = activate(0, peep(parts[1], p[1], c)).mul(activate(2, c));
  }

  void step_gru(const Tensor& of_x, const Tensor& recurrent, const Tensor& bias, Tensor& h) const {
    const auto from_x = of_x.chunk(3, 1);
    const auto weights = recurrent.chunk(3, 0);
    const auto biases = bias.chunk(3, 0);
    const auto of_state = [&](size_t gate, const Tensor& state) {
      return at::addmm(biases[gate], state, weights[gate].t());
    };
    const Tensor update = activate(0, from_x[0].add(of_state(0, h)));
    const Tensor reset = activate(0, from_x[1].add(of_state(1, h)));
    const Tensor hidden = form_.reset_after ? reset.mul(of_state(2, h)) : of_state(2, reset.mul(h));
    const Tensor next = activate(1, from_x[2].add(hidden));
    h = at::rsub(update, 1).mul(next).add(update.mul(h));
  }

  NodeRun& call_;
  const RecurrentForm& form_;
  int64_t direction_ = 0;
};

Results recur(NodeRun& call) {
  const RecurrentForm form(call);
  Results results = form.is_plain() ? run_plain(form) : StepwiseRun(call, form).run();
  if (!form.batch_first) return results;
  // [steps, directions, batch, units] -> [batch, steps, directions, units]
  results[0] = results[0].permute({2, 0, 1, 3});
  for (size_t i = 1; i < results.size(); ++i) {
    if (results[i].defined()) results[i] = results[i].transpose(0, 1);
  }
  return results;
}

}  // namespace

void add_recurrent_kernels(KernelMap& map) {
  for (const char* name : {"GRU", "LSTM", "RNN"}) map[name] = {recur, 3};
}

}  // namespace muster::inline v0_1::onnx::internal
