#include "muster/data/internal/running_iterator.h"

#include <fmt/format.h>

#include <optional>

#include "muster/base/error.h"
#include "muster/data/internal/identity.h"
#include "muster/data/internal/open.h"
#include "muster/data/internal/reading.h"
#include "muster/tensor/threads.h"

namespace muster::inline v0_1::data::internal {
namespace {

class RunningIterator final : public Iterator {
 public:
  RunningIterator(NodePtr node, const IteratorOptions& options, const Node* sharded_node)
      : node_(std::move(node)),
        run_(options.seed, options.sharding, sharded_node, num_threads()),
        stream_(open()),
        pass_(options.pass) {
    stream_->start(pass_);
  }
  ~RunningIterator() override { run_.stop(); }

  std::optional<Element> next() override {
    if (stream_->read(&item_, 1) == 0) return std::nullopt;
    if (item_.error != nullptr) std::rethrow_exception(item_.error);
    item_.settle();
    return std::move(item_.element);
  }

  json save() const override {
    // An elastic run calls this in each step, and lists of initializers would copy their values.
    json state = json::object();
    state["format"] = kFormat;
    state["seed"] = run_.seed();
    state["pipeline"] = identity();
    state["position"] = saved();
    if (pass_ != 0) state["pass"] = pass_;
    return state;
  }

  void restore(const json& state) override {
    const auto has = [&](const char* key, auto is) {
      return state.contains(key) && (state[key].*is)();
    };
    if (!state.is_object() || state.value("format", json()) != kFormat ||
        !has("seed", &json::is_number_unsigned) || !has("pipeline", &json::is_object) ||
        !has("position", &json::is_array) ||
        // Positions of the first pass leave it away.
        (state.contains("pass") &&
         (!has("pass", &json::is_number_integer) || state["pass"].get<int64_t>() < 0))) {
      throw invalid_argument(
          fmt::format("this is not a saved input position: {}", state.dump().substr(0, 200)),
          fmt::format("a position has \"format\": \"{}\"", kFormat));
    }
    check_identity(state["pipeline"], identity());
    IteratorState numbers;
    for (const json& number : state["position"]) {
      if (!number.is_number_integer()) {
        throw invalid_argument(
            fmt::format("the saved position holds {}, which is not a whole number", number.dump()));
      }
      numbers.push_back(number.get<int64_t>());
    }
    const uint64_t seed = run_.seed();
    const int64_t pass = pass_;
    const IteratorState before = saved();
    try {
      go_to(numbers, state["seed"].get<uint64_t>(), state.value("pass", int64_t{0}));
    } catch (...) {
      go_to(before, seed, pass);
      throw;
    }
  }

  Position position() const override {
    const IteratorState numbers = saved();
    IteratorStateReader reader(numbers);
    return stream_->position(reader);
  }

  int64_t remaining() const override {
    const Node* node = node_.get();
    while (node->is<Map, Prefetch, WithOptions, WithSeed>()) node = node->input().get();
    const auto* batch = node->as<Batch>();
    if (batch != nullptr) node = node->input().get();
    // position() counts only the elements that these pass on.
    for (const Node* inner = node; inner != nullptr; inner = inner->input().get()) {
      if (!inner->is<FromSource, Shuffle, Repeat, Map, Prefetch, WithOptions, WithSeed>()) {
        return kUnknown;
      }
    }
    if (node->cardinality < 0) return node->cardinality;
    const int64_t left = std::max<int64_t>(0, node->cardinality - position().elements_total);
    if (batch == nullptr) return left;
    const int64_t round =
        batch->size * (run_.sharding.divides(batch->global) ? 1 : run_.sharding.num_replicas);
    return left / round + (!batch->drop_remainder && left % round != 0 ? 1 : 0);
  }

  std::vector<StageTime> times() const override { return run_.clocks().times(); }

 private:
  std::unique_ptr<Stream<StreamElement>> open() {
    const Node* last = node_.get();
    while (last->is<WithOptions>()) last = last->input().get();
    run_.set_interrupt({.prefetch = last, .asked = stop_of_this_thread()});
    return open_elements(node_, run_);
  }

  static constexpr const char* kFormat = "muster.input.2";

  void go_to(const IteratorState& numbers, uint64_t seed, int64_t pass) {
    stream_->start(pass);  // ends threads, which read the seed
    run_.set_seed(seed);
    pass_ = pass;
    IteratorStateReader reader(numbers);
    stream_->restore(reader, pass_);
    run_.left_out().reset();
    if (reader.at_end()) return;
    throw invalid_argument(
        fmt::format("the saved position has {} numbers, more than the pipeline {} has places for",
                    numbers.size(), node_->description));
  }

  // It never changes.
  const json& identity() const {
    if (!identity_) identity_ = stream_->identity();
    return *identity_;
  }

  IteratorState saved() const {
    IteratorState numbers;
    stream_->save(numbers);
    return numbers;
  }

  const NodePtr node_;
  Run run_;
  std::unique_ptr<Stream<StreamElement>> stream_;
  int64_t pass_;
  mutable std::optional<json> identity_;
  StreamElement item_;
};

}  // namespace

std::unique_ptr<Iterator> make_iterator(NodePtr node, const IteratorOptions& options,
                                        const Node* sharded_node) {
  return std::make_unique<RunningIterator>(std::move(node), options, sharded_node);
}

}  // namespace muster::inline v0_1::data::internal
