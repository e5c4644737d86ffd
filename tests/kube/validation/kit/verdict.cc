// SPDX-License-Identifier: Apache-2.0
#include "tests/kube/validation/kit/verdict.h"

#include <algorithm>
#include <map>

#include "agent/kube/defaulting.h"
#include "agent/kube/manifest_reader.h"
#include "agent/kube/validation/validate.h"
#include "holdfast/base/strings.h"
#include "k8s/core/v1/pod.pb.h"
#include "k8s/core/v1/service.pb.h"

namespace holdfast::agent::kube {
namespace {

constexpr std::string_view kDecode = "decode";

Verdict FromErrors(const FieldErrors& errors) {
  Verdict verdict;
  for (const FieldError& error : errors) verdict.push_back({error.path, error.Message()});
  return verdict;
}

// "spec.containers[3].name" -> "spec.containers[].name". Keys of maps stay.
std::string WithoutIndices(std::string_view path) {
  std::string out;
  for (size_t at = 0; at < path.size(); ++at) {
    out += path[at];
    if (path[at] != '[') continue;
    const size_t end = path.find_first_not_of("0123456789", at + 1);
    if (end != std::string_view::npos && end > at + 1 && path[end] == ']') at = end - 1;
  }
  return out;
}

// '*' stands for any text.
bool Matches(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern[0] != '*') {
    return !text.empty() && text[0] == pattern[0] && Matches(pattern.substr(1), text.substr(1));
  }
  for (size_t skip = 0; skip <= text.size(); ++skip) {
    if (Matches(pattern.substr(1), text.substr(skip))) return true;
  }
  return false;
}

std::string_view NextWord(std::string_view& line) {
  const size_t begin = std::min(line.find_first_not_of(' '), line.size());
  const size_t end = std::min(line.find(' ', begin), line.size());
  const std::string_view word = line.substr(begin, end - begin);
  line.remove_prefix(end);
  return word;
}

std::string_view Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

bool ReadForm(std::string_view word, Wanted::Form* form) {
  if (word == "ours") {
    *form = Wanted::Form::kOurs;
  } else if (word == "theirs") {
    *form = Wanted::Form::kTheirs;
  } else if (word == "moved") {
    *form = Wanted::Form::kMoved;
  } else if (word == "first") {
    *form = Wanted::Form::kFirst;
  } else {
    return false;
  }
  return true;
}

bool ReadLine(std::string_view line, Wanted* out) {
  const size_t dashes = line.find(" -- ");
  if (dashes == std::string_view::npos) return false;
  out->reason = Trimmed(line.substr(dashes + 4));
  line = line.substr(0, dashes);
  if (!ReadForm(NextWord(line), &out->form)) return false;
  out->path = NextWord(line);
  std::string& second = out->form == Wanted::Form::kMoved ? out->our_path : out->kind;
  second = NextWord(line);
  std::replace(out->kind.begin(), out->kind.end(), '_', ' ');
  line = Trimmed(line);
  if (line.starts_with('~')) out->text = line.substr(1);
  return !second.empty() && !out->reason.empty() && (line.empty() || line.starts_with('~'));
}

bool Explains(const Wanted& entry, Wanted::Form form, const Finding& finding) {
  return entry.form == form && Matches(entry.kind, finding.Kind()) &&
         Matches(entry.path, WithoutIndices(finding.path)) &&
         (entry.text.empty() || Matches("*" + entry.text + "*", finding.message));
}

bool IsMoved(const Wanted& entry, const Finding& ours, const Finding& theirs) {
  return entry.form == Wanted::Form::kMoved && ours.Kind() == theirs.Kind() &&
         Matches(entry.path, WithoutIndices(theirs.path)) &&
         Matches(entry.our_path, WithoutIndices(ours.path));
}

// Takes out of both what both have, by `same`.
template <class Same>
void TakeCommon(std::vector<Finding>* a, std::vector<Finding>* b, Same same) {
  std::erase_if(*a, [&](const Finding& one) {
    const auto other = std::find_if(b->begin(), b->end(),
                                    [&](const Finding& candidate) { return same(one, candidate); });
    if (other == b->end()) return false;
    b->erase(other);
    return true;
  });
}

// Pairs what both say at different places.
void TakeMoved(Verdict* ours, Verdict* theirs, const std::vector<Wanted>& wanted, Comparison* out) {
  for (const Wanted& entry : wanted) {
    TakeCommon(ours, theirs, [&](const Finding& a, const Finding& b) {
      const bool moved = IsMoved(entry, a, b);
      if (moved) out->used.push_back(&entry);
      return moved;
    });
  }
}

// The entry by which Kubernetes stopped early, or nullptr.
const Wanted* StoppedBy(const Verdict& theirs, const std::vector<Wanted>& wanted) {
  const Wanted* stop = nullptr;
  for (const Finding& finding : theirs) {
    const auto entry = std::find_if(wanted.begin(), wanted.end(), [&](const Wanted& candidate) {
      return Explains(candidate, Wanted::Form::kFirst, finding);
    });
    if (entry == wanted.end()) return nullptr;
    stop = &*entry;
  }
  return stop;
}

void Explain(const Verdict& left, Wanted::Form form, const std::vector<Wanted>& wanted,
             Comparison* out) {
  for (const Finding& finding : left) {
    const auto entry = std::find_if(wanted.begin(), wanted.end(), [&](const Wanted& candidate) {
      return Explains(candidate, form, finding);
    });
    if (entry == wanted.end()) {
      out->not_wanted.push_back((form == Wanted::Form::kOurs ? "ours " : "theirs ") +
                                finding.ToString());
    } else {
      out->used.push_back(&*entry);
    }
  }
}

}  // namespace

std::string Finding::Kind() const {
  if (message == kDecode || message.starts_with("decode: ")) return std::string(kDecode);
  return message.substr(0, message.find(':'));
}

std::string Finding::ToString() const { return StrCat(path, ": ", message); }

Verdict Judge(std::string_view text) {
  Manifest manifest = ReadManifest("object", text);
  Verdict verdict;
  for (const Diagnostic& diagnostic : manifest.diagnostics) {
    verdict.push_back({diagnostic.path, "decode: " + diagnostic.message});
  }
  if (!verdict.empty()) return verdict;
  if (manifest.objects.size() != 1) {
    return {{"", StrCat("decode: ", manifest.objects.size(), " objects")}};
  }
  google::protobuf::Message* object = manifest.objects[0].object.get();
  if (auto* service = dynamic_cast<corev1::Service*>(object)) {
    if (service->metadata().namespace_().empty())
      service->mutable_metadata()->set_namespace_("default");
    SetServiceDefaults(service);
    return FromErrors(ValidateService(*service));
  }
  auto* pod = dynamic_cast<corev1::Pod*>(object);
  if (pod == nullptr) return {{"", "decode: neither a Pod nor a Service"}};
  SetPodDefaults(pod);
  return FromErrors(ValidatePod(*pod));
}

Verdict VerdictFrom(const Node& answer) {
  const auto text = [](const Node& node, std::string_view name) {
    const Node* value = node.Find(name);
    return value == nullptr ? std::string() : value->text;
  };
  if (text(answer, "code") == "201") return {};
  Verdict verdict;
  const Node* causes = answer.Find("causes");
  if (causes != nullptr) {
    for (const Node& cause : causes->items) {
      verdict.push_back({text(cause, "field"), text(cause, "message")});
    }
  }
  if (verdict.empty()) verdict.push_back({"", "decode: " + text(answer, "message")});
  return verdict;
}

std::vector<Wanted> ReadWanted(std::string_view text, std::string* fault) {
  std::vector<Wanted> entries;
  int number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    if (Trimmed(line).empty() || line.starts_with('#')) continue;
    Wanted entry;
    entry.line = number;
    if (!ReadLine(line, &entry)) *fault = StrCat("line ", number, ": ", line);
    entries.push_back(std::move(entry));
  }
  return entries;
}

Comparison Compare(const Verdict& ours, const Verdict& theirs, const std::vector<Wanted>& wanted) {
  Comparison out;
  out.same_verdict = ours.empty() == theirs.empty();
  out.both_refuse = !ours.empty() && !theirs.empty();
  Verdict a = ours;
  Verdict b = theirs;
  // What cannot be read is refused by both with words of their own, and Kubernetes stops at the
  // first.
  const auto unreadable = [](const Finding& finding) { return finding.Kind() == kDecode; };
  out.both_unreadable = out.both_refuse && std::all_of(a.begin(), a.end(), unreadable) &&
                        std::all_of(b.begin(), b.end(), unreadable);
  if (out.both_unreadable) return out;
  TakeCommon(&a, &b, [](const Finding& x, const Finding& y) {
    return x.path == y.path && x.message == y.message;
  });
  out.same_text = a.empty() && b.empty();
  TakeCommon(&a, &b, [&out](const Finding& x, const Finding& y) {
    const bool same = x.path == y.path && x.Kind() == y.Kind();
    if (same) out.other_words.push_back(StrCat(x.path, ": ", x.message, " | ", y.message));
    return same;
  });
  out.same_fields = a.empty() && b.empty();
  TakeMoved(&a, &b, wanted, &out);
  const Wanted* stop = a.empty() ? nullptr : StoppedBy(theirs, wanted);
  if (stop != nullptr) {
    out.used.push_back(stop);
    a.clear();
  }
  // What we do not even read, for a reason, we cannot judge.
  if (!ours.empty() && std::all_of(ours.begin(), ours.end(), unreadable)) b.clear();
  Explain(a, Wanted::Form::kOurs, wanted, &out);
  Explain(b, Wanted::Form::kTheirs, wanted, &out);
  return out;
}

}  // namespace holdfast::agent::kube
