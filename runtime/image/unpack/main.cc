// SPDX-License-Identifier: Apache-2.0
// holdfast-unpack: reads untrusted bytes so that the agent need not. Started per step, with an
// empty environment: fd 0 is the input, fd 1 the output (a pipe or a directory), fd 2 the report.
//   inflate gzip|zstd          0 -> 1
//   scan                       is the tar on 0 an image archive?
//   split MEMBERS BYTES        image archive on 0 -> numbered files in directory 1
//   layer MEMBERS BYTES ROOM_FILES ROOM_BYTES   layer tar on 0 -> tree in directory 1
#include <unistd.h>

#include <charconv>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/base/address_sanitizer.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/process.h"
#include "runtime/image/unpack/archive_splitter.h"
#include "runtime/image/unpack/inflate.h"
#include "runtime/image/unpack/layer_unpacker.h"
#include "runtime/image/unpack/report.h"
#include "runtime/image/unpack/sandbox.h"

#if HOLDFAST_ADDRESS_SANITIZER
// The leak checker starts a thread and traces the process, which the cage forbids.
extern "C" const char* __asan_default_options() { return "detect_leaks=0"; }
#endif

namespace holdfast::runtime::unpack {
namespace {

constexpr int kInput = 0;
constexpr int kOutput = 1;
constexpr int kReport = 2;

using Arguments = std::vector<std::string_view>;

Result<uint64_t> Number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) {
    return InvalidArgument(StrCat("not a number: ", text));
  }
  return value;
}

void AppendNumber(std::string& report, std::string_view field, uint64_t value) {
  AppendField(report, field);
  AppendField(report, std::to_string(value));
}

Result<std::string> Inflate(std::string_view format) {
  RETURN_IF_ERROR(EnterSandbox(Cage::kStream, -1));
  if (format == "gzip") RETURN_IF_ERROR(InflateGzip(kInput, kOutput));
  if (format == "zstd") RETURN_IF_ERROR(InflateZstd(kInput, kOutput));
  return std::string();
}

Result<std::string> Scan() {
  RETURN_IF_ERROR(EnterSandbox(Cage::kStream, -1));
  ASSIGN_OR_RETURN(const bool images, IsImageArchive(kInput));
  std::string report;
  if (images) AppendField(report, kFieldImages);
  return report;
}

Result<std::string> Split(uint64_t members, uint64_t bytes) {
  RETURN_IF_ERROR(EnterSandbox(Cage::kArchive, kOutput));
  ASSIGN_OR_RETURN(DirFd directory, sys::OpenDirAt(kOutput, "."));
  ASSIGN_OR_RETURN(const SplitArchive archive,
                   SplitImageArchive(kInput, directory.get(), {members, bytes}));
  std::string report;
  for (const std::string& name : archive.files) {
    AppendField(report, kFieldFile);
    AppendField(report, name);
  }
  for (const auto& [name, target] : archive.links) {
    AppendField(report, kFieldLink);
    AppendField(report, name);
    AppendField(report, target);
  }
  return report;
}

Result<std::string> Layer(const UnpackLimits& limits) {
  RETURN_IF_ERROR(EnterSandbox(Cage::kLayer, kOutput));
  ASSIGN_OR_RETURN(DirFd root, sys::OpenDirAt(kOutput, "."));
  ASSIGN_OR_RETURN(const LayerReport layer, UnpackLayer(kInput, std::move(root), limits));
  std::string report;
  AppendNumber(report, kFieldMembers, layer.members);
  AppendNumber(report, kFieldBytes, layer.bytes);
  for (const std::string& path : layer.opaque) {
    AppendField(report, kFieldOpaque);
    AppendField(report, path);
  }
  for (const std::string& path : layer.implicit) {
    AppendField(report, kFieldImplicit);
    AppendField(report, path);
  }
  return report;
}

Result<std::string> Run(const Arguments& arguments) {
  if (arguments.size() == 2 && arguments[0] == "inflate" &&
      (arguments[1] == "gzip" || arguments[1] == "zstd")) {
    return Inflate(arguments[1]);
  }
  if (arguments.size() == 1 && arguments[0] == "scan") return Scan();
  if (arguments.size() == 3 && arguments[0] == "split") {
    ASSIGN_OR_RETURN(const uint64_t members, Number(arguments[1]));
    ASSIGN_OR_RETURN(const uint64_t bytes, Number(arguments[2]));
    return Split(members, bytes);
  }
  if (arguments.size() == 5 && arguments[0] == "layer") {
    UnpackLimits limits;
    ASSIGN_OR_RETURN(limits.members, Number(arguments[1]));
    ASSIGN_OR_RETURN(limits.bytes, Number(arguments[2]));
    ASSIGN_OR_RETURN(limits.room_files, Number(arguments[3]));
    ASSIGN_OR_RETURN(limits.room_bytes, Number(arguments[4]));
    return Layer(limits);
  }
  return InvalidArgument("usage: holdfast-unpack inflate|scan|split|layer …; run by holdfastd");
}

int Main(const Arguments& arguments) {
  ::close_range(3, ~0U, 0);
  const Result<std::string> result = Run(arguments);
  std::string report;
  if (result) {
    AppendField(report, kReportOk);
    report += *result;
  } else {
    AppendField(report, kReportError);
    AppendNumber(report, "code", static_cast<uint64_t>(result.error().code()));
    AppendField(report, result.error().message());
  }
  // A report that does not fit is cut off; its reader then fails for want of the last field.
  AppendField(report, kReportEnd);
  const bool written = sys::WriteAll(kReport, report).has_value();
  return result && written ? 0 : 1;
}

}  // namespace
}  // namespace holdfast::runtime::unpack

int main(int argc, char** argv) {
  (void)holdfast::sys::ResetScheduling();  // unlike the agent, this is bulk work
  try {
    return holdfast::runtime::unpack::Main({argv + 1, argv + argc});
  } catch (const std::exception&) {
    return 2;  // out of memory, in practice: RLIMIT_AS
  }
}
