// SPDX-License-Identifier: Apache-2.0
// What is said of an object by us and by Kubernetes, and where the two differ. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "agent/kube/tree.h"

namespace holdfast::agent::kube {

struct Finding {
  std::string path;     // of the field
  std::string message;  // "Invalid value: …"

  // "Required value", "Invalid value", …; "decode" for what cannot be read into the object at all.
  std::string Kind() const;
  // "PATH: MESSAGE"
  std::string ToString() const;
};

// Empty when the object is accepted.
using Verdict = std::vector<Finding>;

// By agent/kube: read strictly, defaults filled in, judged as on apply.
Verdict Judge(std::string_view text);

// From an answer of the oracle or of an API server: {"code":…,"message":…,"causes":[…]}.
Verdict VerdictFrom(const Node& answer);

// A difference that is wanted: one line of wanted.txt, in one of four forms.
//   ours PATH KIND [~TEXT] -- REASON     said by us alone
//   theirs PATH KIND [~TEXT] -- REASON   said by Kubernetes alone
//   moved PATH OURS -- REASON            said by both, by Kubernetes at PATH, by us at OURS
//   first PATH KIND [~TEXT] -- REASON    said by Kubernetes before it looks at anything else; we go
//   on
// In paths and TEXT '*' stands for anything and indices are written []; KIND is "Invalid_value",
// "decode", … or '*'; ~TEXT must occur in the message.
struct Wanted {
  enum class Form : uint8_t { kOurs, kTheirs, kMoved, kFirst };
  Form form = Form::kOurs;
  std::string path;
  std::string kind;      // of kMoved empty
  std::string our_path;  // of kMoved only
  std::string text;
  std::string reason;
  int line = 0;
};

// Of the file's text; a line that is none is a fault, given in `fault`.
std::vector<Wanted> ReadWanted(std::string_view text, std::string* fault);

struct Comparison {
  bool same_verdict = false;
  bool both_refuse = false;
  bool both_unreadable = false;          // on decoding, each in words of its own
  bool same_fields = false;              // the same paths with the same kinds
  bool same_text = false;                // word for word
  std::vector<std::string> other_words;  // "PATH: OURS | THEIRS" where only the words differ
  std::vector<const Wanted*> used;       // entries that were needed
  std::vector<std::string> not_wanted;   // "ours PATH: MESSAGE" for each that no entry explains
};

Comparison Compare(const Verdict& ours, const Verdict& theirs, const std::vector<Wanted>& wanted);

}  // namespace holdfast::agent::kube
