// Elements and sub-arrays of arrays.
#ifndef TILEKIT_NATIVE_ARRAY_H
#define TILEKIT_NATIVE_ARRAY_H
#include "base.h"

namespace tk {

// Where the element with these indices is, one an axis; with fewer, the first element of what they name.
template <class T, int ND, class... Index> TK_FN u64 address_of(const Array<T, ND>& a, i64 first, Index... more)
{
    static_assert(sizeof...(Index) < (u64)ND, "more indices than dimensions");
    const i64 at[] = {first, (i64)more...};
    u64 address = address_of(a);
    for (int axis = 0; axis <= (int)sizeof...(Index); ++axis) address += (u64)at[axis] * (u64)a.stride[axis];
    return address;
}
// The array without what lies from index `end` of an axis on.
template <int Axis = 0, class T, int ND> TK_FN Array<T, ND> clipped(Array<T, ND> a, i64 end)
{
    if (a.shape[Axis] > end) a.shape[Axis] = end < 0 ? 0 : end;
    return a;
}
template <class T, int ND, class... Index> TK_FN T* element(const Array<T, ND>& a, Index... index)
{
    return global_pointer<T>(address_of(a, index...));
}

// The array that the first indices name, with the dimensions that are left.
template <class T, int ND, class... Index>
TK_FN Array<T, ND - (int)sizeof...(Index)> subarray(const Array<T, ND>& a, Index... index)
{
    constexpr int first = (int)sizeof...(Index);
    Array<T, ND - first> found;
    found.data = (T*)address_of(a, index...);
    for (int axis = first; axis < ND; ++axis) {
        found.shape[axis - first] = a.shape[axis];
        found.stride[axis - first] = a.stride[axis];
    }
    return found;
}

}  // namespace tk
#endif
