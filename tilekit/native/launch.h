// What a kernel knows about its launch.
#ifndef TILEKIT_NATIVE_LAUNCH_H
#define TILEKIT_NATIVE_LAUNCH_H
#include "base.h"

namespace tk {

// Calls back into Python with the operands of one print or assert; `site` numbers the place in the kernel.
typedef void (*Report)(i32 site, i64 block, const void* values);

struct Launch {
    i64 dim[4];  // the grid, 1 where there are fewer dimensions
    i32 ndim;
    i32 block_dim;
    Report report;
};

// Coordinate `axis` of a block or point, counted row by row.
TK_FN i64 coordinate(const Launch& launch, i64 block, int axis)
{
    i64 rest = block;
    for (int d = launch.ndim - 1; d > axis; --d) rest /= launch.dim[d];
    return rest % launch.dim[axis];
}

}  // namespace tk
#endif
