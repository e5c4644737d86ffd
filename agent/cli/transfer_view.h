// SPDX-License-Identifier: Apache-2.0
// How far the layers of an image are that goes from or to a registry: a line per layer that is written
// over on a terminal, a line per change otherwise.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace holdfast::agent::cli {

struct LayerLine {
  std::string digest;
  uint64_t size = 0, bytes = 0;
  std::string state;  // "downloading"
};

// "12 hexadecimal digits".
std::string ShortDigest(const std::string& digest);

class TransferView {
 public:
  TransferView();
  // `note`: what holds all of it up; "" for nothing.
  void Show(const std::string& note, const std::vector<LayerLine>& layers);

 private:
  void WriteOver(const std::string& note, const std::vector<LayerLine>& layers);
  void SayWhatIsNew(const std::string& note, const std::vector<LayerLine>& layers);

  const bool terminal_;
  int lines_ = 0;  // of the last picture
  std::string noted_;
  std::map<std::string, std::string> told_;
};

}  // namespace holdfast::agent::cli
