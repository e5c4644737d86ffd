// SPDX-License-Identifier: Apache-2.0
// What the files of a manifest directory define, found by object: no question costs what the directory holds.
// Single-thread.
#pragma once

#include <compare>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "agent/source/manifest_file.h"

namespace holdfast::agent {

// An object as its manifest names it.
struct ObjectIdentity {
  std::string kind;  // "Pod", "Service", "EndpointSlice", "ConfigMap", "Secret"
  std::string object_namespace;
  std::string name;
  auto operator<=>(const ObjectIdentity&) const = default;
};

struct DefinedObject {
  ObjectIdentity identity;
  std::string file;
  bool ours = false;     // holdctl wrote the file
  std::string uid = {};  // of a pod that is given one
};

class DefinedObjects {
 public:
  struct File {
    FileSignature signature;
    bool is_link = false;  // nobody tells when what it leads to changes
    std::vector<DefinedObject> objects;
  };

  void Set(const std::string& name, File file);
  void Remove(const std::string& name);

  bool IsKnown(const std::string& file, const FileSignature& signature) const;
  std::set<std::string> Files() const;
  const std::set<std::string>& Links() const { return links_; }

  // By file name; good until the next change.
  std::vector<const DefinedObject*> Named(const ObjectIdentity& identity) const;
  std::vector<const DefinedObject*> WithUid(const std::string& uid) const;

 private:
  template <class Key, class Wanted>
  std::vector<const DefinedObject*> Find(const std::map<Key, std::set<std::string>>& index,
                                         const Key& key, Wanted wanted) const;

  std::map<std::string, File> files_;
  std::set<std::string> links_;
  std::map<ObjectIdentity, std::set<std::string>> by_identity_;  // the files
  std::map<std::string, std::set<std::string>> by_uid_;          // of pods that are given one
};

}  // namespace holdfast::agent
