// SPDX-License-Identifier: Apache-2.0
#include "agent/source/defined_objects.h"

#include <utility>

namespace holdfast::agent {
namespace {

template <class Key>
void Drop(std::map<Key, std::set<std::string>>& files, const Key& key, const std::string& file) {
  const auto found = files.find(key);
  if (found == files.end()) return;
  found->second.erase(file);
  if (found->second.empty()) files.erase(found);
}

}  // namespace

void DefinedObjects::Set(const std::string& name, File file) {
  Remove(name);
  if (file.is_link) links_.insert(name);
  for (const DefinedObject& object : file.objects) {
    by_identity_[object.identity].insert(name);
    if (!object.uid.empty()) by_uid_[object.uid].insert(name);
  }
  files_.emplace(name, std::move(file));
}

void DefinedObjects::Remove(const std::string& name) {
  const auto file = files_.find(name);
  if (file == files_.end()) return;
  for (const DefinedObject& object : file->second.objects) {
    Drop(by_identity_, object.identity, name);
    Drop(by_uid_, object.uid, name);
  }
  links_.erase(name);
  files_.erase(file);
}

bool DefinedObjects::IsKnown(const std::string& file, const FileSignature& signature) const {
  const auto known = files_.find(file);
  return known != files_.end() && known->second.signature == signature;
}

std::set<std::string> DefinedObjects::Files() const {
  std::set<std::string> names;
  for (const auto& [name, file] : files_) names.insert(name);
  return names;
}

template <class Key, class Wanted>
std::vector<const DefinedObject*> DefinedObjects::Find(
    const std::map<Key, std::set<std::string>>& index, const Key& key, Wanted wanted) const {
  std::vector<const DefinedObject*> found;
  const auto files = index.find(key);
  if (files == index.end()) return found;
  for (const std::string& file : files->second) {
    for (const DefinedObject& object : files_.at(file).objects) {
      if (wanted(object)) found.push_back(&object);
    }
  }
  return found;
}

std::vector<const DefinedObject*> DefinedObjects::Named(const ObjectIdentity& identity) const {
  return Find(by_identity_, identity,
              [&](const DefinedObject& object) { return object.identity == identity; });
}

std::vector<const DefinedObject*> DefinedObjects::WithUid(const std::string& uid) const {
  return Find(by_uid_, uid, [&](const DefinedObject& object) { return object.uid == uid; });
}

}  // namespace holdfast::agent
