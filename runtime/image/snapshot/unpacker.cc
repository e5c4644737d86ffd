// SPDX-License-Identifier: Apache-2.0
#include "runtime/image/snapshot/unpacker.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>

#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "runtime/image/content/room.h"
#include "runtime/image/snapshot/helper_process.h"
#include "runtime/image/unpack/report.h"

namespace holdfast::runtime {
namespace {

constexpr int kNoOutput = STDERR_FILENO;  // of a step that only reports

// A socket rather than a pipe: a helper that died is EPIPE here, without a signal to the agent.
Result<void> SendAll(int socket, std::string_view data) {
  while (!data.empty()) {
    const ssize_t n = ::send(socket, data.data(), data.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Error::FromErrno(errno, "feed holdfast-unpack");
    data.remove_prefix(static_cast<size_t>(n));
  }
  return {};
}

Result<std::pair<UniqueFd, UniqueFd>> StreamPair() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
    return Error::FromErrno(errno, "socketpair");
  }
  return std::pair(UniqueFd(fds[0]), UniqueFd(fds[1]));
}

Result<std::pair<UniqueFd, UniqueFd>> Pipe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return Error::FromErrno(errno, "pipe");
  std::pair<UniqueFd, UniqueFd> ends{UniqueFd(fds[0]), UniqueFd(fds[1])};
  // Fewer wake-ups; an unprivileged agent over its pipe quota goes on with the default size.
  (void)::fcntl(fds[0], F_SETPIPE_SZ, 1 << 20);
  return ends;
}

}  // namespace

Result<std::string> CompressionOf(int fd) {
  std::array<unsigned char, 4> magic{};
  const ssize_t n = ::pread(fd, magic.data(), magic.size(), 0);
  if (n < 0) return Error::FromErrno(errno, "read the first bytes");
  if (n >= 2 && magic[0] == 0x1f && magic[1] == 0x8b) return std::string("gzip");
  const bool zstd = magic[1] == 0xb5 && magic[2] == 0x2f && magic[3] == 0xfd && magic[0] == 0x28;
  // Skippable frames may come first (RFC 8878, 3.1.2).
  const bool skippable =
      (magic[0] & 0xf0) == 0x50 && magic[1] == 0x2a && magic[2] == 0x4d && magic[3] == 0x18;
  if (n == 4 && (zstd || skippable)) return std::string("zstd");
  return std::string();
}

Unpacker::Unpacker(std::string helper, ImageLimits limits)
    : helper_(std::move(helper)), limits_(limits) {}

Result<Copied> Unpacker::Pump(int from, int to, int output, const Stop& stop) const {
  return CopyHashed(from, limits_.unpacked_bytes, [&](std::string_view piece) -> Result<void> {
    if (stop && stop()) return Unavailable("unpacking was given up");
    if (output != kNoOutput) RETURN_IF_ERROR(CheckRoom(output, limits_.reserve));
    return SendAll(to, piece);
  });
}

Result<Unpacker::Fed> Unpacker::Feed(int source, std::vector<std::string> step, int output,
                                     const Stop& stop) const {
  ASSIGN_OR_RETURN(const std::string compression, CompressionOf(source));
  if (::lseek(source, 0, SEEK_SET) < 0) return Error::FromErrno(errno, "seek to the beginning");
  ASSIGN_OR_RETURN(auto stream, StreamPair());
  ASSIGN_OR_RETURN(HelperProcess consumer,
                   HelperProcess::Start(helper_, std::move(step), stream.second.get(), output));
  stream.second.Reset();

  int from = source;
  std::optional<HelperProcess> inflater;
  UniqueFd inflated;
  if (!compression.empty()) {
    ASSIGN_OR_RETURN(auto pipe, Pipe());
    ASSIGN_OR_RETURN(HelperProcess process, HelperProcess::Start(helper_, {"inflate", compression},
                                                                 source, pipe.second.get()));
    inflater.emplace(std::move(process));
    inflated = std::move(pipe.first);
    from = inflated.get();
  }

  Result<Copied> bytes = Pump(from, stream.first.get(), output, stop);
  inflated.Reset();
  // End-of-file must reach the consumer only after a stream that came whole.
  if (bytes && inflater) {
    if (auto ended = inflater->Wait(); !ended) bytes = std::move(ended.error());
  }
  const bool broken_pipe = !bytes && bytes.error().sys_errno() == EPIPE;
  if (!bytes && !broken_pipe) return std::move(bytes.error());
  stream.first.Reset();
  // After EPIPE the consumer's own words say why it stopped reading.
  ASSIGN_OR_RETURN(std::vector<std::string> report, consumer.Wait());
  if (!bytes) return Fed{{}, false, std::move(report)};
  return Fed{std::move(*bytes), true, std::move(report)};
}

Result<std::vector<std::string>> Unpacker::Hand(int source, std::vector<std::string> step,
                                                int output) const {
  ASSIGN_OR_RETURN(const std::string compression, CompressionOf(source));
  if (!compression.empty()) {
    ASSIGN_OR_RETURN(Fed fed, Feed(source, std::move(step), output));
    return std::move(fed.report);
  }
  const off_t size = ::lseek(source, 0, SEEK_END);
  if (size < 0 || ::lseek(source, 0, SEEK_SET) < 0) {
    return Error::FromErrno(errno, "seek to the beginning");
  }
  // No step writes more than it reads.
  if (output != kNoOutput) {
    RETURN_IF_ERROR(CheckRoom(output, limits_.reserve, static_cast<uint64_t>(size)));
  }
  ASSIGN_OR_RETURN(HelperProcess process,
                   HelperProcess::Start(helper_, std::move(step), source, output));
  return process.Wait();
}

Result<bool> Unpacker::IsImageArchive(int source) const {
  ASSIGN_OR_RETURN(const auto report, Hand(source, {"scan"}, kNoOutput));
  return !report.empty() && report[0] == unpack::kFieldImages;
}

Result<ArchiveMembers> Unpacker::Split(int source, int directory) const {
  ASSIGN_OR_RETURN(const auto report, Hand(source,
                                           {"split", std::to_string(limits_.archive_members),
                                            std::to_string(limits_.archive_bytes)},
                                           directory));
  ArchiveMembers members;
  for (size_t i = 0; i < report.size();) {
    if (report[i] == unpack::kFieldFile && i + 1 < report.size()) {
      members.files.push_back(report[i + 1]);
      i += 2;
    } else if (report[i] == unpack::kFieldLink && i + 2 < report.size()) {
      members.links.emplace_back(report[i + 1], report[i + 2]);
      i += 3;
    } else {
      return InvalidArgument("holdfast-unpack split: unusable report");
    }
  }
  return members;
}

Result<UnpackedLayer> Unpacker::UnpackLayer(int source, int directory,
                                            const Meanwhile& meanwhile) const {
  // A few bytes of names or of a sparse file's map make thousands of directories or blocks, so the
  // room is also counted where they are made.
  ASSIGN_OR_RETURN(Room room, RoomOn(directory, limits_.reserve));
  if (meanwhile.coming) room.bytes -= std::min(room.bytes, meanwhile.coming());
  auto fed =
      Feed(source,
           {"layer", std::to_string(limits_.layer_members), std::to_string(limits_.unpacked_bytes),
            std::to_string(room.files), std::to_string(room.bytes)},
           directory, meanwhile.stop);
  if (!fed) return std::move(fed.error());
  if (!fed->complete) return InvalidArgument("holdfast-unpack layer: did not read the whole layer");
  UnpackedLayer layer;
  layer.tar = std::move(fed->bytes);
  for (size_t i = 0; i + 1 < fed->report.size(); i += 2) {
    if (fed->report[i] == unpack::kFieldOpaque)
      layer.opaque.push_back(std::move(fed->report[i + 1]));
    else if (fed->report[i] == unpack::kFieldImplicit)
      layer.implicit.push_back(std::move(fed->report[i + 1]));
  }
  return layer;
}

}  // namespace holdfast::runtime
