// What Vertex AI wants to know and a job's configuration does not say. Thread safety: values.
#pragma once

#include <string>

namespace muster::inline v0_1::jobs {

// What its jobs consist of.
struct VertexOptions {
  std::string image{};         // of pools that name none
  std::string machine_type{};  // of pools that name none; empty: n1-standard-4
};

// Where its jobs are.
struct VertexPlace {
  std::string region{};   // "us-central1"
  std::string project{};  // empty: the one that gcloud has as default
};

}  // namespace muster::inline v0_1::jobs
