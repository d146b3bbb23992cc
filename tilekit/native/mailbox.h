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
    u32 written;   // bytes of records that were asked for, also of some that did not fit
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

// Where a record of `size` bytes goes, null if it does not fit.
TK_FN u64* reserve(Mailbox* box, u32 size, u64 head)
{
    // What cannot fit is not counted, so that the count never wraps.
    const bool full = *(volatile u32*)&box->written > box->capacity;
    const u32 at = full ? box->capacity : atomicAdd(&box->written, size);
    const u32 room = at < box->capacity ? box->capacity - at : 0;
    u64* const to = (u64*)(box->records + at);
    if (size <= room) return to;
    atomicAdd(&box->lost, 1u);
    if (room >= 16) *(volatile u64*)to = head | 0xffffffffu;  // the end
    return nullptr;
}
// Posts values from `count` places; one thread does.
TK_COLD void post(const Launch& launch, i32 site, i64 block, const Piece* pieces, int count)
{
    Mailbox* const box = mailbox(launch);
    if (!box) return;
    u32 bytes = 0;
    for (int i = 0; i < count; ++i) bytes += ((u32)pieces[i].bytes + 7u) & ~7u;
    const u64 head = (u64)bytes << 32;
    volatile u64* to = reserve(box, bytes + 16, head);
    if (!to) return;
    *to++ = head | (u32)site;
    *to++ = (u64)block;
    for (int i = 0; i < count; ++i)
        for (int at = 0; at < pieces[i].bytes; at += 8) {  // words, each of which is a write over the bus
            u64 word = 0;
            for (int b = 0; b < 8 && at + b < pieces[i].bytes; ++b) word |= (u64)(u8)pieces[i].data[at + b] << 8 * b;
            *to++ = word;
        }
}

}  // namespace tk
#endif
#endif
