#include "muster/trees/internal/grow_tree.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "muster/tensor/libtorch.h"
#include "muster/trees/internal/histogram.h"

namespace muster::inline v0_1::trees {
namespace {

// A node while the tree grows.
struct Growing {
  size_t begin = 0;  // its rows, among those in the order of the nodes
  size_t end = 0;
  Sums sums{};
  std::optional<Split> split{};  // that was made
  size_t left = 0;               // places of the children, if there is a split
  size_t right = 0;
  int64_t rows = 0;  // of all replicas
  Histogram histogram{};
};

}  // namespace

struct Grower::Impl {
  const Bins& bins;
  const BinnedRows& binned;
  const GrowOptions& options;
  distribute::Exchange& exchange;
  const int64_t replicas{};
  Histograms histograms;
  std::vector<uint32_t> rows{};     // in the order of the nodes, and of one node ascending
  std::vector<uint32_t> scratch{};  // for rows that go right
  std::vector<Growing> nodes{};
  std::vector<double> values{};  // of the nodes, including the values of pruned ones in their
                                 // places

  // The sums of all replicas.
  void reduce(std::span<Sums> sums) const {
    if (replicas == 1) return;
    const auto count = static_cast<int64_t>(2 * sums.size());
    Tensor mine = torch::empty({count}, kInt64);
    auto* out = mine.data_ptr<int64_t>();
    for (size_t i = 0; i < sums.size(); ++i) {
      out[2 * i] = sums[i].gradient;
      out[2 * i + 1] = sums[i].hessian;
    }
    const Tensor all = exchange.reduce(distribute::ReduceOp::kSum, mine);
    const auto* in = all.data_ptr<int64_t>();
    for (size_t i = 0; i < sums.size(); ++i) sums[i] = {in[2 * i], in[2 * i + 1]};
  }

  // The histograms of these nodes, over all replicas.
  void build(const std::vector<size_t>& of, const std::vector<int64_t>& packed) {
    const size_t total = bins.total();
    if (replicas == 1) {
      for (const size_t at : of) {
        Growing& node = nodes[at];
        node.histogram.resize(total);
        histograms.sum(rows_of(node), packed, node.histogram);
      }
      return;
    }
    std::vector<Sums> together(of.size() * total);
    for (size_t i = 0; i < of.size(); ++i) {
      histograms.sum(rows_of(nodes[of[i]]), packed, std::span(together).subspan(i * total, total));
    }
    reduce(together);
    for (size_t i = 0; i < of.size(); ++i) {
      const auto begin = together.begin() + static_cast<std::ptrdiff_t>(i * total);
      nodes[of[i]].histogram.assign(begin, begin + static_cast<std::ptrdiff_t>(total));
    }
  }

  std::span<const uint32_t> rows_of(const Growing& node) const {
    return std::span(rows).subspan(node.begin, node.end - node.begin);
  }

  // Moves the rows that go left to the front of their node; returns how many these are.
  size_t divide(const Growing& node, const Split& split) {
    bool left[kMaxBins];
    for (int64_t b = 0; b < kMaxBins; ++b) left[b] = split.goes_left(static_cast<uint8_t>(b));
    const uint8_t* column = binned.column(split.feature);
    size_t lefts = node.begin, rights = 0;
    for (size_t i = node.begin; i < node.end; ++i) {
      const uint32_t row = rows[i];
      const bool goes_left = left[column[row]];
      rows[lefts] = row;
      scratch[rights] = row;
      lefts += goes_left ? 1 : 0;
      rights += goes_left ? 0 : 1;
    }
    std::copy_n(scratch.begin(), rights, rows.begin() + static_cast<std::ptrdiff_t>(lefts));
    return lefts - node.begin;
  }

  // Splits the nodes of a level; returns their children.
  std::vector<size_t> split_nodes(const std::vector<size_t>& level) {
    std::vector<size_t> children;
    for (const size_t at : level) {
      if (!nodes[at].split) {
        nodes[at].histogram = {};
        continue;
      }
      const Split split = *nodes[at].split;
      const size_t middle = nodes[at].begin + divide(nodes[at], split);
      Growing left{.begin = nodes[at].begin, .end = middle, .sums = split.left};
      Growing right{.begin = middle, .end = nodes[at].end, .sums = nodes[at].sums - split.left};
      left.rows = static_cast<int64_t>(left.end - left.begin);
      right.rows = static_cast<int64_t>(right.end - right.begin);
      nodes[at].left = nodes.size();
      nodes[at].right = nodes.size() + 1;
      children.insert(children.end(), {nodes[at].left, nodes[at].right});
      nodes.push_back(std::move(left));
      nodes.push_back(std::move(right));
    }
    if (replicas > 1 && !children.empty()) {
      Tensor counts = torch::empty({static_cast<int64_t>(children.size())}, kInt64);
      for (size_t i = 0; i < children.size(); ++i)
        counts.data_ptr<int64_t>()[i] = nodes[children[i]].rows;
      counts = exchange.reduce(distribute::ReduceOp::kSum, counts);
      for (size_t i = 0; i < children.size(); ++i)
        nodes[children[i]].rows = counts.data_ptr<int64_t>()[i];
    }
    return children;
  }

  // The histograms of the children of a level: the smaller ones are summed, their sisters' are the
  // parents' minus these.
  void histograms_below(const std::vector<size_t>& level, const std::vector<int64_t>& packed) {
    std::vector<size_t> smaller;
    for (const size_t at : level) {
      if (!nodes[at].split) continue;
      const bool left = nodes[nodes[at].left].rows <= nodes[nodes[at].right].rows;
      smaller.push_back(left ? nodes[at].left : nodes[at].right);
    }
    build(smaller, packed);
    size_t next = 0;
    for (const size_t at : level) {
      Growing& parent = nodes[at];
      if (!parent.split) continue;
      const size_t built = smaller[next++];
      Growing& sister = nodes[built == parent.left ? parent.right : parent.left];
      sister.histogram = std::move(parent.histogram);
      subtract(nodes[built].histogram, &sister.histogram);
    }
  }

  int64_t grow(const std::vector<int64_t>& packed, const Scale& scale) {
    std::iota(rows.begin(), rows.end(), 0U);
    nodes.clear();
    nodes.push_back({.end = rows.size()});
    std::vector<size_t> level{0};
    build(level, packed);
    // Each feature's bins hold all rows, so the first feature's bins give the whole.
    for (uint32_t b = 0; b < bins.offsets[1]; ++b) nodes[0].sums += nodes[0].histogram[b];
    int64_t layers = 0;
    while (!level.empty()) {
      ++layers;
      for (const size_t at : level) {
        Growing& node = nodes[at];
        node.split = best_split(node.histogram, node.sums, bins, scale, options.regularization);
        const bool weak = node.split && options.pruning_mode == PruningMode::kPre &&
                          node.split->gain <= options.tree_complexity;
        if (weak) node.split.reset();
      }
      const std::vector<size_t> children = split_nodes(level);
      if (layers == options.max_depth) break;
      histograms_below(level, packed);
      level = children;
    }
    for (Growing& node : nodes) node.histogram = {};
    if (options.pruning_mode == PruningMode::kPost) prune();
    return layers;
  }

  void prune() {
    for (size_t at = nodes.size(); at-- > 0;) {
      Growing& node = nodes[at];
      if (!node.split || nodes[node.left].split || nodes[node.right].split) continue;
      if (node.split->gain <= options.tree_complexity) node.split.reset();
    }
  }

  // The nodes that are left, parents before their children.
  Tree tree_of(const Scale& scale) {
    Tree tree;
    values.assign(nodes.size(), 0.0);
    std::vector<size_t> open{0};
    for (size_t next = 0; next < open.size(); ++next) {
      const Growing& node = nodes[open[next]];
      const double value =
          options.learning_rate * leaf_value(node.sums, scale, options.regularization);
      values[open[next]] = value;
      Node made{.value = value};
      if (node.split) {
        const Split& split = *node.split;
        made.feature = static_cast<int32_t>(split.feature);
        made.threshold = bins.upper[split.feature][split.bin - size_t{1}];
        made.category = split.category;
        made.missing_left = split.missing_left;
        made.gain = split.gain;
        made.left = static_cast<int32_t>(open.size());
        made.right = made.left + 1;
        open.insert(open.end(), {node.left, node.right});
      }
      tree.nodes.push_back(made);
    }
    return tree;
  }
};

Grower::Grower(const Bins& bins, const BinnedRows& rows, const GrowOptions& options,
               distribute::Exchange& exchange, int64_t replicas)
    : impl_(new Impl{.bins = bins,
                     .binned = rows,
                     .options = options,
                     .exchange = exchange,
                     .replicas = replicas,
                     .histograms = Histograms(bins, rows)}) {
  impl_->rows.resize(static_cast<size_t>(rows.rows));
  impl_->scratch.resize(impl_->rows.size());
}

Grower::~Grower() = default;

Grower::Grown Grower::grow(const std::vector<int64_t>& packed, const Scale& scale) {
  const int64_t layers = impl_->grow(packed, scale);
  return {.tree = impl_->tree_of(scale), .layers = layers};
}

void Grower::add_leaves(std::vector<double>* scores) const {
  std::vector<size_t> open{0};
  while (!open.empty()) {
    const Growing& node = impl_->nodes[open.back()];
    const double value = impl_->values[open.back()];
    open.pop_back();
    if (node.split) {
      open.insert(open.end(), {node.left, node.right});
      continue;
    }
    for (const uint32_t row : impl_->rows_of(node)) (*scores)[row] += value;
  }
}

}  // namespace muster::inline v0_1::trees
