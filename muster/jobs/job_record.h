// The record of each job that was submitted from this account: a folder with a record in it, by
// which `muster jobs` finds the job again on its target. Thread safety: values; a JobStore may be
// used by several processes at a time.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/environment.h"

namespace muster::inline v0_1::jobs {

constexpr const char* kRecordFile = "record.json";  // in the folder of a job

struct JobRecord {
  std::string name{};    // unique in its store
  std::string target{};  // "local", as Target::name()
  std::string id{};      // the target's own name of it; empty until it is submitted
  std::string folder{};  // where the record lies, absolute
  std::string job_dir{};
  std::string command{};  // for people: the program and its arguments
  // The same for comparing, for each role, without the job directory; empty: not known.
  std::vector<std::vector<std::string>> commands = {};
  double submitted = 0;                          // Unix time, in seconds
  std::map<std::string, std::string> details{};  // facts by which the target finds it; no secrets
  // Distinguishes this submission from all others, wherever it arrived: the target keeps it with
  // the job. Empty: it is not recognised.
  std::string submission{};
  bool operator==(const JobRecord&) const = default;
};

// Throws InvalidArgument unless `name` can name a job everywhere: 1 to 63 small letters, digits and
// '-', the first a letter, the last no '-', as Kubernetes and Vertex AI ask for.
void check_job_name(std::string_view name);
// Makes such a name of any text: "ResNet_50.exe" gives "resnet-50-exe"; "job" if nothing is left.
std::string job_name_from(std::string_view text);

// The folder in which the records of an account lie, each in a folder of its own.
class JobStore {
 public:
  // The store in `folder`, which is made when the first job comes.
  explicit JobStore(std::string folder);
  // The store of this account: $XDG_STATE_HOME/muster/jobs, else ~/.local/state/muster/jobs. Throws
  // InvalidArgument if neither XDG_STATE_HOME nor HOME is an absolute path.
  static JobStore of(const Environment& environment);

  // Makes a folder, which this account alone can enter, for a job of that name, and returns the
  // record of it, without writing that. Throws InvalidArgument when the name is taken; an empty
  // name gives "stem-3" if "stem-2" is the highest there is.
  JobRecord add(const std::string& name, const std::string& stem);
  // Throws InvalidArgument when the name is taken, as add() does; an empty one is free.
  void check_free(const std::string& name) const;
  // The record that add() would return; nothing is made.
  JobRecord preview(const std::string& name, const std::string& stem) const;
  // Writes the record into its folder.
  void save(const JobRecord& record) const;
  // Throws NotFound, with the name that may be meant or those there are, when there is no such job.
  JobRecord find(const std::string& name) const;
  // All jobs, the newest last. Folders without a readable record, and records that were put aside,
  // are left out.
  std::vector<JobRecord> list() const;
  // Forgets a job, with all in its folder.
  void remove(const JobRecord& record) const;
  // Frees a job's name for another one: its folder is put aside, and replaces an earlier one of
  // that name there.
  void put_aside(const JobRecord& record) const;
  // Restores the job unchanged.
  void bring_back(const JobRecord& record) const;
  // Forgets it.
  void remove_aside(const JobRecord& record) const;

  const std::string& folder() const { return folder_; }

 private:
  std::string folder_;
};

}  // namespace muster::inline v0_1::jobs
