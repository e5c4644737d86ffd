// SPDX-License-Identifier: Apache-2.0
// printing_forms OBJECTS.json < CASES: prints the objects in each case's form as holdctl does, and compares with what
// the oracle answered (oracle/main.go). Tells each difference; 1 when there is one.
//
// Where kubectl crashes, whatever we print is right. Of errors the words are compared too.
#include <algorithm>
#include <fstream>
#include <iostream>
#include <sstream>

#include "agent/cli/columns.h"
#include "agent/cli/go_text.h"
#include "agent/cli/jsonpath.h"
#include "agent/cli/object.h"
#include "agent/cli/selection.h"
#include "agent/cli/table.h"
#include "agent/kube/codec.h"
#include "agent/kube/parse.h"
#include "holdfast/base/strings.h"

namespace holdfast::agent::cli {
namespace {

using kube::Node;

struct Objects {
  Node list;  // as it is printed
  std::vector<Object> pods;
};

Result<Node> ReadJson(const std::string& text) {
  kube::ParsedText parsed = kube::ParseJson(text);
  if (parsed.documents.size() != 1) return InvalidArgument("not one JSON document");
  return std::move(parsed.documents.front());
}

Result<Objects> ReadObjects(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  Objects objects;
  ASSIGN_OR_RETURN(objects.list, ReadJson(text.str()));
  const Node* items = objects.list.Find("items");
  if (items == nullptr) return InvalidArgument(StrCat(path, ": no list"));
  for (const Node& item : items->items) {
    k8s::io::api::core::v1::Pod pod;
    std::vector<kube::Diagnostic> faults;
    kube::FromTree(item, {.strict = true, .file = path, .path = "items[]"}, &pod, &faults);
    if (!faults.empty()) return InvalidArgument(faults.front().ToString());
    objects.pods.push_back(MakeObject(Resource::kPods, std::move(pod)));
  }
  return objects;
}

Result<std::string> PrintColumns(const Objects& objects, const std::string& text) {
  ASSIGN_OR_RETURN(const CustomColumns columns, CustomColumns::Parse(text));
  Table table(columns.header());
  for (const Node& item : objects.list.Find("items")->items) {
    ASSIGN_OR_RETURN(std::vector<std::string> row, columns.Row(item));
    table.AddRow(std::move(row));
  }
  return table.Render(true);
}

// The values that the objects are sorted by, in their order.
Result<std::string> PrintSorted(const Objects& objects, const std::string& text) {
  std::vector<Object> pods = objects.pods;
  RETURN_IF_ERROR(SortBy(text, pods));
  ASSIGN_OR_RETURN(const JsonPath path, ParseRelaxedPath(text));
  std::string out;
  for (const Object& pod : pods) {
    ASSIGN_OR_RETURN(const auto values, path.Values(kube::ToTree(*pod.message)));
    const bool none = values.empty() || values.front().empty();
    out += StrCat(out.empty() ? "" : "\n", none ? "<none>" : GoText(values.front().front()));
  }
  return out;
}

Result<std::string> PrintForm(const Objects& objects, const std::string& form,
                              const std::string& text) {
  if (form == "custom-columns") return PrintColumns(objects, text);
  if (form == "sort-by") return PrintSorted(objects, text);
  ASSIGN_OR_RETURN(const JsonPath path, JsonPath::Parse(text));
  return path.Apply(objects.list);
}

// Without spaces: how wide a column is follows from the order, too.
std::string SortedCharacters(std::string text) {
  std::erase(text, ' ');
  std::sort(text.begin(), text.end());
  return text;
}

bool Agrees(const Node& one, const Result<std::string>& ours) {
  if (const Node* error = one.Find("error")) {
    return error->text == "panic" || (!ours && error->text == ours.error().message());
  }
  if (!ours) return false;
  const std::string& out = one.Find("out")->text;
  if (one.Find("unordered") != nullptr) return SortedCharacters(*ours) == SortedCharacters(out);
  return *ours == out;
}

// Cases, and those that differ.
Result<std::pair<size_t, size_t>> CompareAll(const Objects& objects, std::istream& cases) {
  size_t all = 0, different = 0;
  for (std::string line; std::getline(cases, line); ++all) {
    ASSIGN_OR_RETURN(const Node one, ReadJson(line));
    const Node *form = one.Find("form"), *text = one.Find("text");
    const bool answered = one.Find("error") != nullptr || one.Find("out") != nullptr;
    if (form == nullptr || text == nullptr || !answered) {
      return InvalidArgument(StrCat("no answered case: ", line));
    }
    const auto ours = PrintForm(objects, form->text, text->text);
    if (Agrees(one, ours)) continue;
    ++different;
    std::cout << line << "\n  ours: " << (ours ? *ours : "error: " + ours.error().message())
              << "\n";
  }
  return std::pair(all, different);
}

int RunComparison(const std::string& path) {
  const auto objects = ReadObjects(path);
  if (!objects) return std::cerr << objects.error().message() << "\n", 2;
  const auto compared = CompareAll(*objects, std::cin);
  if (!compared) return std::cerr << compared.error().message() << "\n", 2;
  std::cout << compared->first << " cases, " << compared->second << " differ from kubectl\n";
  return compared->first > 0 && compared->second == 0 ? 0 : 1;
}

}  // namespace
}  // namespace holdfast::agent::cli

int main(int argc, char** argv) {
  if (argc == 2) return holdfast::agent::cli::RunComparison(argv[1]);
  std::cerr << "usage: printing_forms OBJECTS.json < CASES\n";
  return 2;
}
