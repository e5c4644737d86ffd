// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>

#include "agent/api/kubelet/streams/wire/spdy_frames.h"
#include "tests/fuzz/agent/streams/targets.h"
#include "tests/support/fuzz/fuzz.h"

namespace holdfast::fuzz {
namespace {

using namespace agent::streams;

// What was seen, as bytes; pieces of data are one, however they came.
class SpdySeen final : public SpdyEvents {
 public:
  void OnOpen(uint32_t stream, SpdyHeaders headers, bool last) override {
    Say(last ? 'O' : 'o', stream);
    for (const auto& [name, value] : headers) {
      log += name;
      log += '=';
      log += value;
      log += ';';
    }
  }
  void OnData(uint32_t stream, std::string_view bytes, bool last) override {
    if (!bytes.empty() && talking_ != stream) {
      Say('d', stream);
      talking_ = stream;
    }
    log += bytes;
    if (last) Say('e', stream);
  }
  void OnReset(uint32_t stream) override { Say('r', stream); }
  void OnPing(uint32_t id) override { Say('p', id); }
  void OnGoAway() override { Say('g', 0); }
  std::string log;

 private:
  void Say(char what, uint32_t number) {
    log += what;
    for (int shift = 24; shift >= 0; shift -= 8) log += static_cast<char>(number >> shift & 0xff);
    talking_ = kNobody;
  }
  static constexpr uint64_t kNobody = UINT64_MAX;
  uint64_t talking_ = kNobody;
};

std::string ReadSpdy(std::string_view bytes, size_t step) {
  SpdyReader reader;
  SpdySeen seen;
  for (; !bytes.empty(); bytes.remove_prefix(std::min(step, bytes.size()))) {
    if (!reader.Read(bytes.substr(0, step), seen)) return seen.log + "!";
  }
  return seen.log;
}

}  // namespace

void FuzzSpdy(std::string_view input) {
  Require(ReadSpdy(input, 1) == ReadSpdy(input, input.size() + 1),
          "frames do not depend on how their bytes come", input);
}

}  // namespace holdfast::fuzz
