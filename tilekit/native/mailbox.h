// What a kernel on a GPU tells the host: the first error, and what it prints. The host reads it once the kernel is done.
#ifndef TILEKIT_NATIVE_MAILBOX_H
#define TILEKIT_NATIVE_MAILBOX_H
#include "launch.h"

#ifdef TK_CUDA
namespace tk {

// In host memory that the device can write. `records` holds prints one behind the other: site, bytes of the values,
// block, and the values, each from a multiple of 8 bytes on. A site of -1 ends them early.
struct Mailbox {
    Error error;
    u32 written;   // bytes of records that were asked for, also where they did not fit
    u32 capacity;  // bytes of `records`
    u32 lost;      // records that did not fit
    u32 unused;
    char records[8];
};
struct Piece {
    const char* data;
    int bytes;
};

TK_FN Mailbox* mailbox(const Launch& launch) { return (Mailbox*)launch.report; }
// Where errors go, null if nobody reads them.
TK_FN Error* error_of(const Launch& launch) { return launch.report ? &mailbox(launch)->error : nullptr; }

// Posts values from `count` places.
TK_COLD void post(const Launch& launch, i32 site, i64 block, const Piece* pieces, int count)
{
    Mailbox* const box = mailbox(launch);
    if (!box) return;
    u32 bytes = 0;
    for (int i = 0; i < count; ++i) bytes += ((u32)pieces[i].bytes + 7u) & ~7u;
    const u32 at = atomicAdd(&box->written, bytes + 16);
    const bool fits = at <= box->capacity && bytes + 16 <= box->capacity - at;
    if (!fits) atomicAdd(&box->lost, 1u);
    if (at > box->capacity || box->capacity - at < 16) return;
    char* to = box->records + at;
    *(volatile i32*)to = fits ? site : -1;
    *(volatile i32*)(to + 4) = (i32)bytes;
    *(volatile i64*)(to + 8) = block;
    if (!fits) return;
    to += 16;
    for (int i = 0; i < count; ++i) {
        for (int b = 0; b < pieces[i].bytes; ++b) ((volatile char*)to)[b] = pieces[i].data[b];
        to += ((u32)pieces[i].bytes + 7u) & ~7u;
    }
}

}  // namespace tk
#endif
#endif
