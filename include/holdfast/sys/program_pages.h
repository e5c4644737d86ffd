// SPDX-License-Identifier: Apache-2.0
// The pages of this process that are its program and its shared libraries. Thread-safe: no state.
#pragma once

namespace holdfast::sys {

// Code and constants are mapped no longer; what is used again comes back from the page cache at that
// moment, 16 pages at a time, without a read unless the kernel needed the memory meanwhile. Of a long
// start little is used again. What a debugger or a uprobe wrote into the code is lost with it.
void UnmapProgramPages();

}  // namespace holdfast::sys
