// SPDX-License-Identifier: Apache-2.0
#include "agent/kube/expansion.h"

namespace holdfast::agent::kube {

std::string Expand(const std::string& text, const std::map<std::string, std::string>& variables,
                   bool* unknown) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '$' || i + 1 == text.size()) {
      out.push_back(text[i]);
      continue;
    }
    const char next = text[i + 1];
    const size_t close = next == '(' ? text.find(')', i + 2) : std::string::npos;
    if (close != std::string::npos) {
      const std::string name = text.substr(i + 2, close - i - 2);
      const auto it = variables.find(name);
      if (it != variables.end()) {
        out += it->second;
      } else {
        out.append(text, i, close - i + 1);
        if (unknown != nullptr) *unknown = true;
      }
      i = close;
      continue;
    }
    out.push_back('$');
    if (next != '$') out.push_back(next);
    ++i;
  }
  return out;
}

}  // namespace holdfast::agent::kube
