// Variables of kOnRead over several replicas: as one value, and as the values each replica keeps.
// Thread safety: pure functions.
//
// A checkpoint holds the one value under the variable's name, so that evaluation and any number of
// replicas can use it, and all of them as "<name>/replicas" [replicas, ...], so that the same
// number of replicas continues with the bits it had. With kConcat the one value is all of them.
#pragma once

#include <string>

#include "muster/tensor/variable.h"

namespace muster::inline v0_1::distribute {

// "net/norm/running_mean" -> "net/norm/running_mean/replicas"
std::string replicas_name(const std::string& variable);

// [replicas, ...]
Shape replicas_shape(const VariableSpec& spec, int replicas);

// One value made of the values of all replicas, [replicas, ...], by the variable's aggregation;
// added in the order of the replicas; with kConcat one after another, [replicas * rows, ...].
Tensor aggregate(const VariableSpec& spec, const Tensor& values);

// Whether `value` is the result of aggregate() for the values of `replicas` replicas with kConcat.
bool is_concatenation(const VariableSpec& spec, const Tensor& value, int replicas);

// The way back, [replicas, ...]: a sum becomes the first replica's and the others start at 0, of
// anything else each has `value`.
Tensor spread(const VariableSpec& spec, const Tensor& value, int replicas);

}  // namespace muster::inline v0_1::distribute
