// The implementation of columns. Thread safety: immutable; calls may come from several threads at
// once.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "muster/data/example.h"
#include "muster/features/internal/cells.h"
#include "muster/features/internal/feature_reader.h"
#include "muster/tensor/tensor.h"
#include "muster/tensor/variable.h"

namespace muster::inline v0_1::feature_column::internal {

class Source;

// The values of a column that a layer receives.
struct ColumnValues {
  Tensor values{};   // the numbers [batch, ...], or int64 ids [batch, values]
  Tensor weights{};  // of the ids; undefined: all 1
  Tensor lengths{};  // of sequences, whose steps are the second axis of the values: int64 [batch]
};

// One of these in a batch that was resolved.
struct Entry {
  std::string key{};
  Tensor ColumnValues::*tensor{};
};

// Returns the rows of the column's table for flat ids, and creates the table at the first call.
using TableRows = std::function<Tensor(const VariableSpec& table, const Tensor& ids)>;

// Receives an id and a value with this id.
using TellSeen = std::function<void(int64_t id, const std::string& value)>;

class Column {
 public:
  explicit Column(std::string name) : name_(std::move(name)) {}
  virtual ~Column() = default;
  Column(const Column&) = delete;
  Column& operator=(const Column&) = delete;

  const std::string& name() const { return name_; }
  virtual bool is_categorical() const { return false; }
  virtual bool is_dense() const { return false; }
  bool is_sequence() const;
  // The meaning of the weight at `place` of a linear model's table for the column: a word of a
  // vocabulary, "25 to 35", "bucket 7"; "" if the column has only one weight. REQUIRES: a place of
  // it.
  virtual std::string value_name(int64_t place) const;
  // The part that runs in the input pipeline: the column itself, or the one inside of it.
  virtual const Source& source() const = 0;

  // For dense columns only: the shape of one example, and the numbers, float32 [batch, all of
  // them].
  virtual Shape variable_shape() const;
  virtual Tensor numbers(const ColumnValues& given, const TableRows& rows) const;
  // The name within the layer of the table that numbers() asks for; empty if it asks for none.
  virtual std::string table() const { return {}; }
  // Describes all that columns of one table must have in common.
  virtual std::string table_definition() const { return {}; }

 private:
  const std::string name_;
};

// A column that reads features.
class Source : public Column {
 public:
  using Column::Column;
  const Source& source() const final { return *this; }

  // Says how it reads them. Sources of one name and one definition give the same.
  virtual std::string definition() const = 0;
  // The same for recipe_of(). Throws InvalidArgument if the column has none.
  virtual nlohmann::json recipe() const = 0;
  // Adds the features that a file must hold. Throws InvalidArgument if they contradict existing
  // ones.
  virtual void add_features(data::FeatureSpec& spec) const = 0;
  // The result of resolve(); the first entry is "<name>/values" or "<name>/ids".
  virtual std::vector<Entry> entries() const = 0;
  virtual bool gives_sequences() const { return false; }
  virtual bool crosses() const { return false; }
  virtual ColumnValues resolve(const FeatureReader& features) const = 0;
};

// A source that gives ids.
class CategoricalColumn : public Source {
 public:
  using Source::Source;
  bool is_categorical() const final { return true; }
  virtual int64_t num_buckets() const = 0;
  virtual bool is_weighted() const { return false; }
  // Whether crossed_column() takes it.
  virtual bool can_be_crossed() const { return true; }
  std::string value_name(int64_t place) const override = 0;
  // Whether the names of its values lack the texts, which seen() returns.
  virtual bool has_hash_buckets() const { return false; }

  // The ids of all rows; unknown values have the id -1.
  virtual Cells ids(const FeatureReader& features) const = 0;
  // Calls `tell` with each id of these rows that is a hash, and the value that was hashed.
  virtual void seen(const FeatureReader& features, const TellSeen& tell) const;

  std::vector<Entry> entries() const override;
  ColumnValues resolve(const FeatureReader& features) const override;
};

// Returns the categorical column that `function` is called with. Throws InvalidArgument
// "<function>: the column 'age' is not categorical".
std::shared_ptr<const CategoricalColumn> as_categorical(
    const std::string& function, const std::shared_ptr<const Column>& column);

// Throws InvalidArgument for an empty key.
void check_key(const std::string& function, const std::string& key);
// Throws InvalidArgument "<function> of 'city': hash_bucket_size is 0 | hash_bucket_size must be at
// least 1".
void check_at_least(const std::string& function, const std::string& name, const char* argument,
                    int64_t value, int64_t least);

// Throws InvalidArgument "<function> of 'x': shape is []" for no axes, and sizes below 1.
void check_shape(const std::string& function, const std::string& name, const Shape& shape);

}  // namespace muster::inline v0_1::feature_column::internal
