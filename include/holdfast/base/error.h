// SPDX-License-Identifier: Apache-2.0
// Error: why something failed, in words that name the call and its object.
//
// Text is lower case, without a full stop, outermost context first:
//   "start container web: mount overlay: fsconfig lowerdir: no such file or directory".
#pragma once

#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

namespace holdfast {

enum class Code {
  kInvalidArgument,    // the caller's input is wrong; retrying cannot help
  kNotFound,           // the named object does not exist
  kAlreadyExists,      // the named object exists and may not be replaced
  kPermissionDenied,   // the kernel or our own policy says no
  kUnsupported,        // this kernel or build lacks the feature
  kUnavailable,        // a peer or a resource is away for now; retry later
  kConflict,           // the object changed or is held by somebody else
  kResourceExhausted,  // a limit (fds, addresses, space, size) is reached
  kDeadlineExceeded,   // a step took longer than its time limit
  kInternal,           // everything else
};

// Maps an errno to the Code a caller would decide by.
inline Code CodeFromErrno(int err) {
  switch (err) {
    case ENOENT:
    case ESRCH:
    case ENODEV:
      return Code::kNotFound;
    case EEXIST:
      return Code::kAlreadyExists;
    case EACCES:
    case EPERM:
    case EROFS:
      return Code::kPermissionDenied;
    case EINVAL:
    case ENAMETOOLONG:
    case ELOOP:
      return Code::kInvalidArgument;
    case ENOSYS:
    case EOPNOTSUPP:
      return Code::kUnsupported;
    case EAGAIN:
    case EBUSY:
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
      return Code::kUnavailable;
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return Code::kResourceExhausted;
    case ETIMEDOUT:
      return Code::kDeadlineExceeded;
    default:
      return Code::kInternal;
  }
}

class Error {
 public:
  Error(Code code, std::string message) : code_(code), message_(std::move(message)) {}
  // An error that came from another process, as it was there.
  Error(Code code, int sys_errno, std::string message)
      : code_(code), sys_errno_(sys_errno), message_(std::move(message)) {}

  // `what` names the call and its object: FromErrno(errno, "open /etc/passwd").
  static Error FromErrno(int err, std::string_view what) {
    Error e(CodeFromErrno(err), std::string(what) + ": " + ErrnoText(err));
    e.sys_errno_ = err;
    return e;
  }

  Code code() const { return code_; }
  int sys_errno() const { return sys_errno_; }  // 0 where no system call failed
  const std::string& message() const { return message_; }

  // Adds outer context in front: std::move(err).Wrap("create pod x").
  Error Wrap(std::string_view context) && {
    message_.insert(0, std::string(context) + ": ");
    return std::move(*this);
  }

 private:
  static std::string ErrnoText(int err) {
    const char* text = ::strerrordesc_np(err);
    std::string out = text != nullptr ? text : "errno " + std::to_string(err);
    if (!out.empty() && out[0] >= 'A' && out[0] <= 'Z')
      out[0] = static_cast<char>(out[0] - 'A' + 'a');
    return out;
  }

  Code code_;
  int sys_errno_ = 0;
  std::string message_;
};

inline Error InvalidArgument(std::string m) { return {Code::kInvalidArgument, std::move(m)}; }
inline Error NotFound(std::string m) { return {Code::kNotFound, std::move(m)}; }
inline Error Unsupported(std::string m) { return {Code::kUnsupported, std::move(m)}; }
inline Error Unavailable(std::string m) { return {Code::kUnavailable, std::move(m)}; }
inline Error Conflict(std::string m) { return {Code::kConflict, std::move(m)}; }
inline Error Internal(std::string m) { return {Code::kInternal, std::move(m)}; }

}  // namespace holdfast
