// Settings that Vertex AI needs and a job's configuration does not contain. Thread safety: values.
#pragma once

#include <string>

namespace muster::inline v0_1::jobs {

// The settings of its jobs.
struct VertexOptions {
  std::string image{};         // of pools that name none
  std::string machine_type{};  // of pools that name none; empty: n1-standard-4
};

// Where its jobs are.
struct VertexPlace {
  std::string region{};   // "us-central1"
  std::string project{};  // empty: gcloud's default
};

}  // namespace muster::inline v0_1::jobs
