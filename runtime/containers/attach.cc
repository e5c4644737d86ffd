// SPDX-License-Identifier: Apache-2.0
#include "runtime/containers/attach.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "holdfast/base/strings.h"
#include "runtime/containers/pipe.h"

namespace holdfast::runtime {
namespace {

Result<UniqueFd> InputOf(Parts& parts, const ContainerId& id, const model::ContainerSpec& spec) {
  if (spec.tty) return parts.keeper.GetTty(id);
  if (!spec.stdin_open) return UniqueFd();
  auto kept = parts.keeper.GetFds(StdinKey(id));
  if (!kept && kept.error().code() == Code::kNotFound) return UniqueFd();  // it was closed
  if (!kept) return std::move(kept.error());
  if (kept->empty()) return UniqueFd();
  return std::move(kept->front());
}

}  // namespace

Result<AttachedStreams> AttachTo(Parts& parts, const TableEntry& container,
                                 const AttachSpec& wanted) {
  ASSIGN_OR_RETURN(const ContainerRecord record, parts.state.Container(container.id));
  const model::ContainerSpec& spec = record.spec;
  AttachedStreams streams;
  streams.terminal = spec.tty;
  streams.input_once = spec.stdin_once && spec.stdin_open && !spec.tty && wanted.input;
  // A terminal's master also tells its size.
  if (wanted.input || spec.tty) {
    ASSIGN_OR_RETURN(streams.input, InputOf(parts, container.id, spec));
  }
  Pipe out;
  Pipe err;
  if (wanted.output) {
    ASSIGN_OR_RETURN(out, MakePipe(O_NONBLOCK));
  }
  if (wanted.error_output && !spec.tty) {
    ASSIGN_OR_RETURN(err, MakePipe(O_NONBLOCK));
  }
  RETURN_IF_ERROR(parts.keeper.AttachLog(container.id, out.write ? out.write.get() : -1,
                                         err.write ? err.write.get() : -1));
  streams.output = std::move(out.read);
  streams.error_output = std::move(err.read);
  return streams;
}

Result<void> CloseStdinOf(Parts& parts, const TableEntry& container) {
  return parts.keeper.DropFds(StdinKey(container.id));
}

}  // namespace holdfast::runtime
