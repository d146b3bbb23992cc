// What a kernel shows of itself: the values of a print or of a failed assertion, on every device by report().
#ifndef TILEKIT_NATIVE_MAILBOX_H
#define TILEKIT_NATIVE_MAILBOX_H
#include "launch.h"

namespace tk {

// The memory that holds a value: `bytes` bytes, from `first` bytes after `value`, which is where its element 0 lies.
struct Shown {
    const void* value;
    i32 first;
    i32 bytes;
};

#ifdef TK_CUDA
// In host memory that the device sees; the host reads it when the launch is over. After it in memory lie `capacity`
// bytes for records, `written` of them in use: {i32 site, i32 bytes, i64 block} and that many bytes, which are the memory
// of each value, filled up to a multiple of 8.
struct Mailbox {
    Error error;
    u32 written;
    u32 capacity;
    u32 dropped;  // records for which there was no room
    u32 unused;
};

// Where errors go, null if nobody reads them.
TK_FN Error* error_of(const Launch& launch) { return launch.report ? &launch.report->error : nullptr; }

// Where `size` bytes of records may be written, or null where there is no room.
TK_FN u64* reserve(Mailbox* box, u32 size)
{
    u32 at = *(volatile u32*)&box->written;
    for (;;) {
        if (size > box->capacity - at) {
            atomicAdd(&box->dropped, 1u);
            return nullptr;
        }
        const u32 seen = atomicCAS(&box->written, at, at + size);
        if (seen == at) return (u64*)(box + 1) + at / 8;
        at = seen;
    }
}
TK_FN u64 two_words(i32 low, i32 high) { return (u64)(u32)high << 32 | (u32)low; }

// Adds a record; called by one thread. Does nothing without a mailbox.
TK_COLD void post(Mailbox* box, i32 site, i64 block, const Shown* shown, int count)
{
    u64 bytes = 0;
    for (int i = 0; i < count; ++i) bytes += ((u64)(u32)shown[i].bytes + 7) / 8 * 8;
    u64* const record = box ? reserve(box, bytes < 0x7fffff00u ? (u32)bytes + 16 : 0xffffffffu) : nullptr;
    if (!record) return;
    u64* to = record + 2;
    for (int i = 0; i < count; ++i) {
        const u8* const from = (const u8*)shown[i].value + shown[i].first;
        for (int at = 0; at < shown[i].bytes; at += 8) {
            u64 word = 0;
            for (int b = 0; b < 8 && at + b < shown[i].bytes; ++b) word |= (u64)from[at + b] << 8 * b;
            *to++ = word;
        }
    }
    record[0] = two_words(site, (i32)bytes);
    record[1] = (u64)block;
    __threadfence_system();
}
#endif

// Hands values to Python: `site` numbers the place in the kernel.
template <int Count> TK_FN void report(const Launch& launch, i32 site, i64 block, const Shown (&shown)[Count])
{
#ifdef TK_CUDA
    post(launch.report, site, block, shown, Count);
#else
    const void* values[Count];
    for (int i = 0; i < Count; ++i) values[i] = shown[i].value;
    launch.report(site, block, values);
#endif
}
// The same without values.
TK_FN void report(const Launch& launch, i32 site, i64 block)
{
    const Shown nothing[] = {{nullptr, 0, 0}};
    report(launch, site, block, nothing);
}

}  // namespace tk
#endif
