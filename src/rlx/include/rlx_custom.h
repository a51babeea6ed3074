/* What a custom op's C kernel looks like. This header is the whole contract: a
 * kernel includes nothing else of rlx, or only copies the line at the end.
 *
 * data    the operands in order, then the results; NULL for an operand that is
 *         not given. Each is C-contiguous and aligned to its element type.
 *         Operands are read only. Results are uninitialised: write all of it.
 *         Operands and results do not overlap. No byte outside may be touched.
 * shapes  the sizes of each, as many as `ranks` says.
 * ranks   the number of axes of each; 0 for a scalar, and for what is not given.
 * attrs   64-bit words, in the order of the op's attributes:
 *           int, bool   the value
 *           float       the bits of a double (RLX_ATTR_FLOAT)
 *           dtype       RLX_F32, ...
 *           ints        two words: offset from `attrs` in words, and count;
 *           floats      the values follow there
 *           str         two words: offset in words, and bytes; UTF-8, closed by 0
 *         An attribute that is None has count -1 (lists, strings); numbers that
 *         may be None are not supported.
 * lo, hi  the items to do, half open. An op registered without `items` has one
 *         item and gets (0, 1). With `items` the range may be cut anywhere and
 *         its pieces run on several threads at once: write nothing outside your
 *         items, and let no bit depend on the cut.
 * returns 0, or anything else for a failure, which becomes an ExecutionError
 *         that names the node and the number.
 *
 * The GIL is not held. Do not call Python, do not keep the pointers, do not
 * throw or longjmp out of it.
 */
#ifndef RLX_CUSTOM_H
#define RLX_CUSTOM_H

#include <stdint.h>
#include <string.h>

enum {
    RLX_F64, RLX_F32, RLX_F16, RLX_BF16, RLX_I8, RLX_I16, RLX_I32, RLX_I64,
    RLX_U8, RLX_U16, RLX_U32, RLX_U64, RLX_BOOL, RLX_C64, RLX_C128
};

static inline double rlx_attr_float(const int64_t *attrs, int64_t i) {
    double value;
    memcpy(&value, attrs + i, sizeof value);
    return value;
}
#define RLX_ATTR_FLOAT(attrs, i) rlx_attr_float(attrs, i)
#define RLX_ATTR_LIST(attrs, i) ((attrs) + (attrs)[i])
#define RLX_ATTR_COUNT(attrs, i) ((attrs)[(i) + 1])

typedef int32_t (*rlx_custom_fn)(void *const *data, const int64_t *const *shapes, const int64_t *ranks,
                                 const int64_t *attrs, int64_t lo, int64_t hi);

#endif
