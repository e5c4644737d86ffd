// SPDX-License-Identifier: Apache-2.0
// A stream session: bytes between something on this node (a program, a container's own streams, a
// port of a pod) and a peer, whatever the peer's transport is. Both sides live on one executor that
// runs one handler at a time; nobody blocks, and nobody has a thread.
//
// Back-pressure: of each output one piece at a time is under way, until Taken() says that it left;
// input waits up to a limit, above which Feed() says so and ReadOn() tells when there is room.
// Source: join.md 6.8.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/base/error.h"
#include "holdfast/model/exit_report.h"

namespace holdfast::agent {

enum class StreamOutput : uint8_t { kStdout, kStderr };

struct TerminalSize {
  uint16_t rows = 0;
  uint16_t columns = 0;
  bool operator==(const TerminalSize&) const = default;
};

// How a session ended; with neither, what it was connected to has ended.
struct StreamEnd {
  std::optional<model::ExitReport> exit;  // of a program
  std::optional<Error> error;             // it could not begin, or go on
};

// Who sits at the other end. Outlives the session, or calls Close() first.
class StreamPeer {
 public:
  virtual ~StreamPeer() = default;
  // The next piece of this output; no other follows before Taken().
  virtual void Write(StreamOutput output, std::string bytes) = 0;
  // Feed() takes bytes again.
  virtual void ReadOn() = 0;
  // Once, last, when every byte was taken.
  virtual void Finish(const StreamEnd& end) = 0;
};

class StreamSession {
 public:
  static constexpr size_t kMaxInput = 256 << 10;  // bytes that wait

  virtual ~StreamSession() = default;
  // False: taken, but enough waits now.
  virtual bool Feed(std::string_view bytes) = 0;
  // No more input comes; what waits is still delivered.
  virtual void EndInput() = 0;
  virtual void Resize(TerminalSize size) = 0;
  virtual void Taken(StreamOutput output) = 0;
  // The peer hangs up: it is called no more, a program is killed, all is given back.
  virtual void Close() = 0;
};

}  // namespace holdfast::agent
