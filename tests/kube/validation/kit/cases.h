// SPDX-License-Identifier: Apache-2.0
// Cases: objects with what Kubernetes said of them, one JSON object a line.
//   {"base":"pod-plain","object":{…}}                  a good object, before the cases made of it
//   {"id":4711,"base":"pod-plain","edits":[…],…}       a mutant; the id is its seed
//   {"id":"two-documents","text":"…",…}                a text by hand
// and in each case, once it was asked, "code", "message" and "causes" of the answer.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "agent/kube/tree.h"
#include "holdfast/base/result.h"
#include "tests/kube/validation/kit/mutator.h"
#include "tests/kube/validation/kit/verdict.h"

namespace holdfast::agent::kube {

struct Case {
  std::string id;
  std::string base;  // empty for a text by hand
  std::string text;
  Verdict theirs;
};

// A line without newline.
std::string LineOf(uint64_t seed, const Mutant& mutant, const Bases& bases);

// Reads a stream of lines; `take` gets each case.
class CaseReader {
 public:
  explicit CaseReader(std::function<void(const Case&)> take) : take_(std::move(take)) {}
  // Of the file, gzip or plain.
  Result<void> ReadFile(const std::string& path);
  Result<void> ReadLine(std::string_view line);

 private:
  std::function<void(const Case&)> take_;
  Bases bases_;
};

// Counts what was compared and words it.
class Tally {
 public:
  explicit Tally(const std::vector<Wanted>& wanted) : wanted_(wanted) {}

  void Add(const Case& one);

  bool AllWanted() const { return not_wanted_.empty(); }
  int cases() const { return cases_; }
  // Entries that explained nothing.
  std::vector<const Wanted*> Unused() const;
  // Numbers, then each entry with how often it was needed, the places where most often only the
  // words differ, and what nobody wants.
  std::string Summary() const;

 private:
  struct Sample {
    int count = 0;
    std::string text;
  };

  static std::string List(std::string_view title, const std::map<std::string, Sample>& groups,
                          size_t most);

  const std::vector<Wanted>& wanted_;
  int cases_ = 0;
  int accepted_ = 0;     // by both
  int refused_ = 0;      // by both
  int unreadable_ = 0;   // of these, refused on decoding by both
  int same_fields_ = 0;  // of the judged ones refused by both
  int same_text_ = 0;
  int stricter_ = 0;
  int laxer_ = 0;
  std::map<const Wanted*, Sample> used_;
  std::map<std::string, Sample> other_words_;
  std::map<std::string, Sample> not_wanted_;
};

}  // namespace holdfast::agent::kube
