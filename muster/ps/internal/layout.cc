#include "muster/ps/internal/layout.h"

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::ps {

using distribute::FlatParameters;
namespace {

// Whether the variable's optimizer, or its constraint, must see all of it.
bool must_be_whole(const VariableSpec& spec, const optim::TrainOp& train_op) {
  if (spec.constraint && !spec.row_sparse) return true;
  for (const auto& entry : train_op.entries) {
    if (entry.filter && !entry.filter(spec)) continue;
    if (entry.optimizer.rule().per_variable()) return true;
  }
  return false;
}

}  // namespace

Layout::Layout(const distribute::VariableTable& table, FlatParameters& parameters,
               const optim::TrainOp& train_op, const distribute::ParameterServerOptions& options,
               int servers)
    : by_server_(static_cast<size_t>(servers)), by_table_(parameters.tables().size()) {
  struct Owner {
    int parameter = -1;
    int table = -1;
  };
  std::map<const Variable*, Owner> owners;
  for (size_t p = 0; p < parameters.parameters().size(); ++p)
    owners[parameters.parameters()[p].variable].parameter = static_cast<int>(p);
  for (size_t t = 0; t < parameters.tables().size(); ++t)
    owners[&parameters.tables().variable(static_cast<int>(t))].table = static_cast<int>(t);
  std::vector<plan::PlacedVariable> placed;
  std::vector<Owner> owner_of;
  for (const auto& variable : table.variables()) {
    const auto owner = owners.find(variable.get());
    if (owner == owners.end()) continue;
    const VariableSpec& spec = variable->spec();
    int64_t bytes = static_cast<int64_t>(c10::elementSize(spec.dtype));
    for (const int64_t size : spec.shape) bytes *= size;
    placed.push_back({.name = spec.name,
                      .shape = spec.shape,
                      .bytes = bytes,
                      .whole = must_be_whole(spec, train_op)});
    owner_of.push_back(owner->second);
    names_.push_back(spec.name);
  }
  for (const plan::Shard& shard :
       plan::place(placed, servers, options.placement, options.partitioner)) {
    const auto v = static_cast<size_t>(shard.variable);
    auto& here = by_server_[static_cast<size_t>(shard.server)];
    if (owner_of[v].table >= 0)
      by_table_[static_cast<size_t>(owner_of[v].table)].push_back(parts_.size());
    if (shard.parts > 1)
      cut_[plan::shard_name(names_[v], shard)] = {names_[v], shard.part, shard.parts};
    parts_.push_back({.shard = shard,
                      .parameter = owner_of[v].parameter,
                      .table = owner_of[v].table,
                      .place = here.size()});
    here.push_back(parts_.size() - 1);
  }
}

std::vector<net::shards::Shard> Layout::shards_on(size_t server) const {
  std::vector<net::shards::Shard> shards;
  for (const size_t p : by_server_[server]) {
    const plan::Shard& shard = parts_[p].shard;
    shards.push_back({.variable = names_[static_cast<size_t>(shard.variable)],
                      .part = shard.part,
                      .parts = shard.parts,
                      .begin = shard.begin,
                      .end = shard.end});
  }
  return shards;
}

Layout::Named Layout::logical(const std::string& name) const {
  // "Adam/m/dense/kernel/part_1": the shard's name follows that of its slot.
  for (size_t begin = 0; begin != std::string::npos;) {
    const auto found = cut_.find(name.substr(begin));
    if (found != cut_.end())
      return {name.substr(0, begin) + found->second.name, found->second.part, found->second.parts};
    const size_t slash = name.find('/', begin);
    begin = slash == std::string::npos ? slash : slash + 1;
  }
  return {name};
}

}  // namespace muster::inline v0_1::ps
