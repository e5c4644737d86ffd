// SPDX-License-Identifier: Apache-2.0
// ManifestEditor: `apply` and `delete` as edits of the manifest directory, one file per object.
//
// Our files are named <kind>-<namespace>-<name>.yaml (or .json) and begin with a marker line; a
// file without the marker belongs to somebody else: it is never rewritten nor removed, the refusal
// names it. Thread-safe; every call is one atomic change of the directory (temporary dot file,
// rename).
#pragma once

#include <chrono>
#include <mutex>
#include <string>
#include <vector>

#include "agent/source/defined_objects.h"
#include "agent/source/directory_watch.h"
#include "agent/source/manifest_file.h"
#include "holdfast/base/result.h"

namespace holdfast::agent {

enum class EditOutcome { kCreated, kConfigured, kUnchanged, kDeleted };

struct EditedObject {
  std::string kind;  // "Pod", "Service", "EndpointSlice", "ConfigMap", "Secret"
  std::string object_namespace;
  std::string name;  // as in the manifest, without the node's suffix
  std::string file;  // within the directory
  EditOutcome outcome = EditOutcome::kUnchanged;
};

class ManifestEditor {
 public:
  // One as it will be written.
  struct Planned {
    EditedObject object;
    std::string text;
    std::string uid = {};  // of a pod that is given one
  };

  ManifestEditor(std::string directory, std::string node_name);

  // Removes half-written files of a process that was killed in Apply. Before the first call.
  Result<void> Recover();

  // Every object of `manifest` (YAML or JSON, several documents allowed). All are checked before
  // the first is written: kInvalidArgument with every error of every document, prefixed by `origin`
  // ("web.yaml:3:5: …"); kConflict naming the file when an object is somebody else's file.
  // `dry_run` checks and reports what would happen. `name_space`, where it is given, is that of
  // objects that name none, and the only one that others may name.
  Result<std::vector<EditedObject>> Apply(const std::string& manifest, const std::string& origin,
                                          bool dry_run = false, const std::string& name_space = "");

  // `kind` as in EditedObject; a pod's `name` with or without the node's suffix. kNotFound;
  // kConflict naming a foreign file; kInvalidArgument for a kind that no manifest file holds.
  Result<EditedObject> Delete(const std::string& kind, const std::string& object_namespace,
                              const std::string& name);

 private:
  // Renews defined_: of what nothing was heard since the last call nothing is read.
  Result<void> ReadDirectory();
  void ReadFile(const std::string& file);
  Result<EditOutcome> OutcomeOf(const Planned& planned, const FileRules& rules) const;

  const std::string directory_;
  const std::string node_name_;
  std::mutex mutex_;  // one edit at a time: what is checked is what is then written
  DirectoryWatch watch_;
  std::chrono::steady_clock::time_point all_read_;
  // What the files that are there define; those that cannot be read define nothing.
  DefinedObjects defined_;
};

}  // namespace holdfast::agent
