// SPDX-License-Identifier: Apache-2.0
#include "holdfast/sys/program_pages.h"

#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

namespace holdfast::sys {
namespace {

// A segment that nobody may write is the file as it is: what relocation changes lies in a writable
// one, though it is read-only afterwards (PT_GNU_RELRO).
int UnmapSegments(dl_phdr_info* object, size_t, void*) {
  const uintptr_t page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = object->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || (segment.p_flags & PF_W) != 0) continue;
    const uintptr_t at = object->dlpi_addr + segment.p_vaddr;
    const uintptr_t first = at & ~(page - 1);
    const uintptr_t end = (at + segment.p_memsz + page - 1) & ~(page - 1);
    // Locked memory stays (EINVAL): nothing is lost by that.
    (void)::madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED);
  }
  return 0;
}

}  // namespace

void UnmapProgramPages() { ::dl_iterate_phdr(UnmapSegments, nullptr); }

}  // namespace holdfast::sys
